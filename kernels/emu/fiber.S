/*
 * fiber.S
 *	  Switch between the stacks of cemu.c's threads.
 *
 * void cemu_switch(void **from, void *to): saves the registers that the ABI has a callee save on the old
 * stack.  All threads share the control words of SSE and x87: no kernel changes them.  ucontext would make a
 * system call.
 */
	.text
	.globl	cemu_switch
	.hidden	cemu_switch
	.type	cemu_switch, @function
cemu_switch:
	pushq	%rbp
	pushq	%rbx
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	%rsp, (%rdi)
	movq	%rsi, %rsp
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbx
	popq	%rbp
	ret
	.size	cemu_switch, . - cemu_switch
	.section .note.GNU-stack, "", @progbits
