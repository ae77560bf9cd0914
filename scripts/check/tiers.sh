# tiers.sh: which parts of check.sh each tier runs, and in which order.  Sourced, not run.
#
# Tests of the server wait for much of their time.  So they come first, and meanwhile the background builds
# the other parts and runs programs that only compute.

tier_check() {
	check_lint
	use_pg 15 || return
	check_hardening
	build_behind plain
	check_sql
	check_tap
	run_programs plain
}

tier_full() {
	check_lint
	use_pg 15 || return
	check_hardening
	build_behind emu-lib plain asan tsan emu fuzz bench cuda
	check_sql
	check_tap
	if use_pg 16; then
		check_sql
		check_tap
		use_pg 15
	fi
	check_demo
	check_soak
	check_fuzz_sql
	run_programs plain
	check_san
	check_tables
	check_emu
	check_cuda
	check_fuzz
	check_bench
}

# Run everything: all programs plain and under sanitizers, all TAP files on all versions, long simulations,
# soak and fuzz tests.
tier_nightly() {
	local version
	export FULL=1
	SOAK_MINUTES=${SOAK_MINUTES:-30} FUZZ_SQL=${FUZZ_SQL:---calls 100000 --asan} FUZZ_TIME=${FUZZ_TIME:--s 600}
	tier_full
	if use_pg 18; then
		check_sql
		check_tap
		use_pg 15
	fi
	check_deb
}

run_part() {
	local begun=$SECONDS
	say "== $1"
	case $1 in
		check | full | nightly) "tier_$1" ;;
		lint) check_lint ;;
		unit | kernels | golden)
			use_pg 15 && run_programs plain "$1/"
			[ "$1" != golden ] || [ -n "${PROGRAMS:-}" ] || check_tables ;;
		san) use_pg 15 && check_san ;;
		emu) check_emu ;;
		cuda) check_cuda ;;
		fuzz) use_pg 15 && check_fuzz ;;
		bench) check_bench ;;
		hardening) use_pg 15 && check_hardening ;;
		regress) use_pg 15 && check_sql ;;
		tap) use_pg 15 && check_tap ;;
		demo) use_pg 15 && check_demo ;;
		soak) use_pg 15 && check_soak ;;
		fuzz_sql) use_pg 15 && check_fuzz_sql ;;
		deb) check_deb ;;
		pg16 | pg18) use_pg "${1#pg}" && { check_sql; check_tap; } ;;
		*) return 1 ;;
	esac
	say "== $1 took $((SECONDS - begun)) s"
	return 0
}

# plan_of TIER: print what the tier would run
plan_of() {
	local b
	case $tier in
		part) echo "parts: $*" ;;
		check) echo "parts: lint hardening regress+isolation tap programs" ;;
		*) echo "parts: lint hardening regress+isolation tap regress+tap-on-16$([ $tier != nightly ] || echo '+18') demo soak fuzz_sql programs tables emu cuda fuzz bench$([ $tier != nightly ] || echo ' deb')" ;;
	esac
	[ $tier != nightly ] || FULL=1
	for b in plain asan tsan; do
		[ $tier != check ] || [ $b = plain ] || continue
		echo "$b ($(programs_of $b | wc -l)): $(programs_of $b | xargs)"
	done
	for PG_MAJOR in 15 $([ $tier = check ] || echo 16) $([ $tier != nightly ] || echo 18); do
		echo "TAP on $PG_MAJOR ($(tap_files | wc -l)): $(tap_files | cut -d' ' -f2 | xargs)"
	done
}
