/*
 * fiber.S
 *	  Switch between the stacks of cemu.c's threads.
 *
 * void cemu_switch(void **from, void *to): keeps what the ABI says a callee keeps, with the
 * control words of SSE and x87, on the old stack.  ucontext would make a system call.
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
	subq	$8, %rsp
	stmxcsr	(%rsp)
	fnstcw	4(%rsp)
	movq	%rsp, (%rdi)
	movq	%rsi, %rsp
	ldmxcsr	(%rsp)
	fldcw	4(%rsp)
	addq	$8, %rsp
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbx
	popq	%rbp
	ret
	.size	cemu_switch, . - cemu_switch
	.section .note.GNU-stack, "", @progbits
