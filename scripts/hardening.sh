#!/bin/bash
# Check that built files have what scripts/harden.mk asks for.  Reads them with readelf and objdump.
#
#	scripts/hardening.sh FILE ...		programs must be position-independent executables; *.so are libraries
#
# Prints each offence, then `hardening: N passed, N failed, N skipped`.
passed=0 failed=0 skipped=0
[ "${1:-}" != --help ] || { sed -n '2,6p' "$0"; exit 0; }
if ! command -v readelf >/dev/null || ! command -v objdump >/dev/null; then
	printf 'skipped 1: no binutils\nhardening: 0 passed, 0 failed, 1 skipped\n'
	exit 0
fi

ok() {	# ok FILE WHAT CONDITION...
	local file=$1 what=$2
	shift 2
	if "$@"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAILED hardening: $file: $what"
	fi
}
has() { grep -qE -- "$2" <<<"$1"; }
hasnt() { ! has "$@"; }

look() {	# look FILE
	local f=$1 head segments dynamic symbols first
	head=$(readelf -hW "$f") segments=$(readelf -lW "$f") dynamic=$(readelf -dW "$f")
	symbols=$(readelf -W --dyn-syms "$f")
	ok "$f" 'it is not position-independent (-fPIE -pie)' has "$head" 'Type: +DYN'
	case $f in
		*.so) ;;
		*) ok "$f" 'it is not a position-independent executable (-pie)' has "$dynamic" 'FLAGS_1.* PIE' ;;
	esac
	ok "$f" 'its tables can be written (-z relro)' has "$segments" '^ +GNU_RELRO '
	ok "$f" 'it binds late (-z now)' has "$dynamic" 'BIND_NOW|FLAGS_1.* NOW'
	ok "$f" 'its stack can be executed (-z noexecstack)' has "$segments" '^ +GNU_STACK .* RW +0x'
	ok "$f" 'it has memory that can be written and executed' hasnt "$segments" '^ +LOAD .* RWE '
	ok "$f" 'its code is relocated (-fPIC)' hasnt "$dynamic" 'TEXTREL'
	ok "$f" 'no canary is on its stack (-fstack-protector-strong)' has "$symbols" '__stack_chk_(fail|guard)'
	case $f in *cuda*) return ;; esac	# nvcc builds it without checked calls, and with a path to the toolkit
	ok "$f" 'no call of libc is checked (-D_FORTIFY_SOURCE)' has "$symbols" '_chk@'
	ok "$f" 'it looks for libraries in places of its own' hasnt "$dynamic" 'RPATH|RUNPATH'
	# The file's property note can't be used: it holds only if libc's own objects have the marks, too.
	if has "$head" 'Machine: +Advanced Micro Devices X86-64'; then
		first=main
		case $f in *.so) first=_PG_init ;; esac
		# of a stripped program no function can be found, but libc's own objects have few marks
		ok "$f" 'targets of jumps are not marked (-fcf-protection)' \
			has "$(objdump -d --disassemble=$first "$f" | grep endbr64; objdump -d "$f" | grep -c endbr64)" 'endbr64|^[0-9]{3,}$'
	fi
}

for f in "$@"; do
	[ ! -f "$f" ] || look "$f"
done
echo "hardening: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
