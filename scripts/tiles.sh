#!/bin/bash
# Show the inner loops of the kernels' register tiles, from the built objects.  No test of results can see
# whether a tile's sums stay in registers, but its speed depends on it.
#
#	tiles.sh		the tiles whose loops keep too many vectors on the stack
#	tiles.sh list [NAME...]		every tile's loop: instructions, products, broadcasts, stack
#	tiles.sh mca CPU [NAME...]	... cycles per iteration as llvm-mca predicts for CPU (znver4, ...)
#
# NAME: implementations (avx512_vnni ...).  BUILD: the build's folder, build/engine.  Prints nothing if
# objdump or the object is missing.
cd "$(dirname "$0")/.." || exit 1
mode=${1:-check}
case $mode in
	check) shift $# ;;
	list) shift ;;
	mca) cpu=${2:?mca needs a CPU}; shift 2 ;;
	*) sed -n '2,/^cd/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
MCA=${MCA:-$(ls /usr/bin/llvm-mca-* 2>/dev/null | sort -V | tail -n 1)}
command -v objdump >/dev/null || exit 0
[ $# -gt 0 ] || set -- avx2 avx2_vnni avx512 avx512_vnni avx512_bf16

# A loop is a backward jump.  Of the loops with products, the script takes the innermost.  A vector is on
# the stack if an instruction names a vector register and memory at %rsp, or at %rbp in a function that uses
# %rbp as its frame pointer.
loops() {	# loops OBJECT: "name instructions products broadcasts stack", or with dir= files NAME.s
	objdump -d --no-show-raw-insn "$1" | awk -v dir="${dir:-}" '
	function measure(l,	i) {
		all[l] = dots[l] = bcast[l] = stack[l] = 0
		for (i = 1; i <= n; i++) {
			if (addr[i] < from[l] || addr[i] > to[l])
				continue
			all[l]++
			dots[l] += text[i] ~ /vpdpbusd|vdpbf16ps|vfmadd|vpmaddubsw|vpmaddwd/
			bcast[l] += text[i] ~ /broadcast|\{1to/
			stack[l] += text[i] ~ /%[xyz]mm/ && (text[i] ~ /\(%rsp/ || (framed && text[i] ~ /\(%rbp/))
		}
	}
	function body(l,	i, s) {
		for (i = 1; i <= n; i++) {
			s = text[i]
			sub(/^ *[0-9a-f]+:\t/, "", s)
			sub(/ *[<#].*/, "", s)
			if (addr[i] >= from[l] && addr[i] <= to[l] && s !~ /^(j|nop|data16|cs )/)
				print s >(dir "/" name ".s")
		}
		close(dir "/" name ".s")
	}
	function finish(	i, j, inner) {
		for (i = 1; i <= count; i++)
			measure(i)
		for (i = 1; i <= count; i++) {
			inner = dots[i] > 0
			for (j = 1; j <= count && inner; j++)
				if (dots[j] > 0 && from[j] >= from[i] && to[j] <= to[i] &&
					(from[j] != from[i] || to[j] != to[i] || j < i))
					inner = 0
			if (inner)
				print name, all[i], dots[i], bcast[i], stack[i]
			if (inner && dir != "")
				body(i)
		}
		n = count = framed = 0
	}
	function padded(a) {
		while (length(a) < 12)
			a = "0" a
		return a
	}
	/^[0-9a-f]+ <.*>:$/ {
		finish()
		name = $2
		gsub(/[<>:]/, "", name)
	}
	name ~ /tile_/ && /^ *[0-9a-f]+:\t/ {
		addr[++n] = padded(substr($1, 1, length($1) - 1))
		text[n] = $0
		framed = framed || $0 ~ /mov +%rsp,%rbp/
		if ($2 ~ /^j/ && $3 ~ /^[0-9a-f]+$/ && padded($3) <= addr[n]) {
			from[++count] = padded($3)
			to[count] = addr[n]
		}
	}
	END { finish() }'
}

# Float tiles must keep nothing on the stack.  Formats with several sums per row need more than 16
# registers: the limit is a quarter of the products, or a tenth with 32 registers.
too_many() {	# too_many NAME
	awk -v isa="$1" '{ limit = $1 ~ /^tile_/ ? 0 : isa ~ /512/ ? $3 / 10 : $3 / 4 }
		$5 > limit { print isa ": " $1 ": " $5 " vectors on the stack for " $3 " products" }'
}

for isa in "$@"; do
	o=${BUILD:-build/engine}/kernels/cpu/$isa.o
	[ -f "$o" ] || continue
	case $mode in
		check) loops "$o" | too_many "$isa" ;;
		list) loops "$o" | sed "s/^/$isa /" | column -t -N implementation,tile,instructions,products,broadcasts,stack ;;
		mca)
			dir=$(mktemp -d)
			loops "$o" | while read -r name all dots rest; do
				cycles=$("${MCA:-llvm-mca}" -mcpu="$cpu" -iterations=100 "$dir/$name.s" | awk '/^Total Cycles/ { print $3 / 100 }')
				echo "$isa $name $all $dots ${cycles:--}"
			done | column -t -N implementation,tile,instructions,products,cycles
			rm -rf "$dir" ;;
	esac
done
