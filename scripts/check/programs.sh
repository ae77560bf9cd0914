# programs.sh: the parts of check.sh that need no PostgreSQL.  Sourced, not run.
#
# scripts/check/programs.txt lists what is unusual about a C program.  PROGRAMS='core/ test_jinja' selects
# programs whose names contain one of these words.

declare -A how

read_how() {
	local name words
	while read -r name words; do
		case $name in '' | '#'*) ;; *) how[$name]=$words ;; esac
	done <scripts/check/programs.txt
	all_programs=$(make -s list-tests | tr ' ' '\n' | sed '/^$/d' | sort -u)
}

has() { case " ${how[$1]:-} " in *" $2 "*) return 0 ;; esac; return 1; }	# has PROGRAM WORD
value() { echo " ${how[$1]:-} " | sed -n "s/.* $2=\([^ ]*\) .*/\1/p"; }	# value PROGRAM WORD

# Print the programs that this tier runs in a build (plain, asan, tsan); with FOLDER, only those in that
# folder of tests.
programs_of() {	# programs_of BUILD [FOLDER]
	local p w
	for p in $all_programs; do
		case $p in "${2:-}"*) ;; *) continue ;; esac
		for w in ${PROGRAMS:-/}; do case $p in *"$w"*) break ;; esac; w=; done
		[ -n "$w" ] || continue
		case $1 in
			plain)
				case $tier in
					check) ! has "$p" full || [ -n "$(value "$p" quick)" ] ;;
					full) has "$p" plain ;;
				esac || continue ;;
			asan) ! has "$p" plain || has "$p" asan || continue ;;
			tsan) has "$p" tsan || continue ;;
		esac
		echo "$p"
	done
}

# jobs_of BUILD [FOLDER]: print a line `KIND NAME COMMAND...` for each program of the build, for run_lanes
jobs_of() {
	local p kind dir=build/engine prefix= arguments
	case $1 in
		emu) jobs_in emu- build/engine/emu/test_*; return ;;
		fuzz) jobs_in "" build/engine/tests/fuzz/fuzz_*; return ;;
		plain) ;;
		asan) dir=$SAN_ASAN prefix=asan- ;;
		tsan) dir=$SAN_TSAN prefix=tsan- ;;
		*) return ;;
	esac
	for p in $(programs_of "$@"); do
		kind=computes
		! has "$p" waits || kind=waits
		! has "$p" alone || kind=alone
		arguments=
		if [ "$tier" = check ] || { [ "$tier$1" = fullasan ] && has "$p" asan; }; then
			arguments=$(value "$p" quick | tr ',' ' ')
		fi
		echo "$kind $prefix${p##*/} program $prefix${p##*/} $(limit_of "$p") $dir/tests/$p $arguments"
	done
}

# jobs_in PREFIX FILE...: the same for programs that no list names; PREFIX begins their names
jobs_in() {
	local b prefix=$1
	shift
	for b; do
		[ ! -x "$b" ] || [ -d "$b" ] ||
			echo "$(has "${prefix%-}/${b##*/}" alone && echo alone || echo computes) $prefix${b##*/} program $prefix${b##*/} 600 $b"
	done
}

# run_programs BUILD [FOLDER]: run the build's programs, as many at a time as there are CPUs; those of kind
# `alone` run one at a time
run_programs() {
	case $1 in
		plain | asan | tsan) [ -n "$(programs_of "$@")" ] || return ;;
	esac
	wait_for_build "$1" || return
	end_background
	jobs_of "$@" >"build/check/programs.$1"
	run_lanes "$(nproc)" tell_program <"build/check/programs.$1"
}

limit_of() {
	local s
	s=$(value "$1" limit)
	echo "${s:-300}"
}

# program NAME LIMIT BINARY ARGUMENT...
program() { CHECK_VERBOSE=1 timed $(($2 * ${CHECK_PATIENCE:-1})) "$1" "${@:3}"; }

tell_program() { tally "$1" "build/check/$1.out" "$(cat "build/check/$1.status")" "$(seconds_of "$1")"; }

# Check that the built files have what scripts/harden.mk asks for.
check_hardening() {
	step hardening scripts/hardening.sh build/engine/vllm_pg_{engine,http,remote} "build/pg$PG_MAJOR/vllm_pg.so" vllm_pg_cuda.so
}

check_lint() {
	step lint scripts/lint.sh
	step check_background tests/check_background.sh
}

# Check that docs/user/models.md claims what the golden tests prove.
check_tables() {
	local p
	for p in models_golden encoders_golden; do
		step "table_$p" tests/golden/models_table.py --check "build/check/$p.out"
	done
}

# Run the suite's programs under sanitizers.
check_san() {
	run_programs asan
	run_programs tsan
}

# Run the CUDA kernels on the CPU, and compile the code that both sides share with nvcc if it is installed.
check_emu() {
	local n
	n=$(ls tests/emu/test_*.cu tests/emu/test_*.c | wc -l)
	if [ "$(uname -m)" != x86_64 ] || ! command -v g++ >/dev/null; then
		printf 'skipped %s: needs x86-64 and g++\nemu: 0 passed, 0 failed, %s skipped\n' "$n" "$n" >build/check/emu.out
		tally emu build/check/emu.out 0
		return
	fi
	run_programs emu || return
	# check the harness of `make check-gpu` itself
	[ -z "${FULL:-}" ] || step check_gpu scripts/check_gpu.sh --emu --json build/check/gpu_emu.json
	step emu-nvcc make -s emu-nvcc
}

# Without nvcc the build must skip the library without an error.  With nvcc the library must build without a
# warning, and its kernels must use the recorded amounts of registers and shared memory.
check_cuda() {
	step cuda_missing tests/cuda_missing.sh
	wait_for_build cuda || return
	step cuda make -s -j"$(nproc)" cuda-check $(cuda_options)
	step gpu_only make -s -j"$(nproc)" gpu-only $(cuda_options)
}

# The nightly tier builds all capabilities.  Otherwise 9.0 compiles every kernel; what older ones do in
# another way is in mma.cuh and common.cuh, which emu-nvcc compiles for all.
cuda_options() { [ -n "${FULL:-}" ] || echo CUDA_SM=90a; }

# Run mutated fixtures with a fixed seed, the same on every machine; then libFuzzer if it is installed.
check_fuzz() {
	run_programs fuzz || return
	STEP_LIMIT=36000 step fuzz scripts/fuzz.sh ${FUZZ_TIME:--f}
	grep -E '^fuzz_.* executions' build/check/fuzz.out
}

# Compile the C programs of the benchmarks, but run none.
check_bench() {
	wait_for_build bench || return
	passed=$((passed + 1))
	say "bench: 1 passed, 0 failed, 0 skipped ($(seconds_of build-bench))"
}
