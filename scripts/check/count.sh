# count.sh: functions that all parts of check.sh share: counts, parallel lanes, times.  Sourced, not run.
# All files are in build/check: NAME.out and NAME.status of each program, `times` and `failed` of the run.

passed=0 failed=0 skipped=0
failures=

# Print a line of progress.
say() {
	printf '%s\n' "$*"
	touch build/check/said
}

# fail NAME [FILE]: count a failure of something that prints no counts itself, such as a build; print the
# end of FILE
fail() {
	[ -z "${2:-}" ] || tail -n 30 "$2"
	say "$1: 0 passed, 1 failed"
	failed=$((failed + 1)) failures="$failures $1"
}

# tally NAME OUTPUT-FILE STATUS [SECONDS]: add up the last line `N passed, N failed, N skipped`
tally() {
	local name=$1 out=$2 status=$3 took=${4:-} line counts
	line=$(grep -aE '[0-9]+ passed, [0-9]+ failed' "$out" | tail -n 1)
	if [ -z "$line" ] || { [ "$status" != 0 ] && ! echo "$line" | grep -qE ' [1-9][0-9]* failed'; }; then
		fail "$name" "$out"
		echo "$name: exit status $status" >>build/check/failed
		return
	fi
	counts=$(echo "$line" | sed -E 's/(.*[^0-9])?([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?.*/\2 \3 \5/')
	set -- $counts
	passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + ${3:-0}))
	if [ "$2" != 0 ]; then
		failures="$failures $name"
		grep -aE 'FAILED|not ok|^#  |WARNING: ThreadSan|ERROR: Addr|runtime error' "$out" |
			awk '!(/FAILED/ && seen[$0]++)' | head -n 60 |
			sed "s/^/$name: /" | tee -a build/check/failed
	fi
	grep -aE '^skipped ' "$out" | sort | uniq -c | sed 's/^ *//' | head -n 5
	say "${line/#*: /$name: }${took:+ ($took s)}"
}

# step NAME COMMAND...: run one program of a part in the foreground and count its results
step() {
	local name=$1 status
	shift
	timed "${STEP_LIMIT:-900}" "$name" "$@" >"build/check/$name.out" 2>&1
	status=$?
	tally "$name" "build/check/$name.out" $status "$(seconds_of "$name")"
	return $status
}

# timed LIMIT NAME COMMAND...: run a command with a time limit; the ticker shows it, and its times go to
# `times`
timed() {
	local name=$2 status
	touch "build/check/running/$name"
	scripts/check/limit.py "$@"
	status=$?
	rm -f "build/check/running/$name"
	return $status
}

# seconds_of NAME: print the seconds and CPU seconds that a program took
seconds_of() { awk -v n="$1" '$1 == n { s = $2; c = $3 } END { print s " s, CPU " c }' build/check/times; }

# After a minute without output, print which programs run.
start_ticker() {
	rm -rf build/check/running
	mkdir -p build/check/running
	touch build/check/said
	(
		while sleep 10 && kill -0 $$ 2>/dev/null; do
			[ $(($(date +%s) - $(stat -c %Y build/check/said))) -lt 60 ] || say "... at $(date +%T): $(ls -t build/check/running | head -n 6 | xargs | grep . || echo preparing)"
		done
	) &
	ticker=$!
	disown
}

# run_lanes LANES TELL: run the jobs on standard input, each a line `KIND NAME COMMAND...`.  LANES jobs
# compute at a time.  One job of kind `waits` runs beside them at a better priority: it has a time limit,
# and so it gets CPU time in time.  Jobs of kind `alone` run last, one at a time.  Calls TELL NAME for each
# job that has ended.  While a job of kind `alone` runs, the work in the background pauses.
run_lanes() {
	local lanes=$1 tell=$2 kind name command
	local computing=() waiting=() alone=()
	while read -r kind name command; do
		case $kind in
			waits) waiting+=("$name $command") ;;
			alone) alone+=("$name $command") ;;
			*) computing+=("$name $command") ;;
		esac
	done
	local n_waiting=0 n_computing=0 i nicer=${#waiting[@]}
	declare -A kind_of=() name_of=()
	while [ ${#computing[@]} -gt 0 ] || [ ${#waiting[@]} -gt 0 ] || [ ${#name_of[@]} -gt 0 ]; do
		if [ $n_waiting = 0 ] && [ ${#waiting[@]} -gt 0 ]; then
			start_job waits "${waiting[0]}"
			waiting=("${waiting[@]:1}") n_waiting=1
		fi
		while [ $n_computing -lt $lanes ] && [ ${#computing[@]} -gt 0 ]; do
			start_job computes "${computing[0]}"
			computing=("${computing[@]:1}") n_computing=$((n_computing + 1))
		done
		await_job
	done
	[ ${#alone[@]} = 0 ] || pause_background
	for i in "${alone[@]}"; do
		start_job alone "$i"
		await_job
	done
	resume_background
}

start_job() {	# start_job KIND "NAME COMMAND...": start a job in the background, for run_lanes
	local job=($2)
	{
		[ "$1" != computes ] || [ "$nicer" = 0 ] || renice -n 10 -p $BASHPID >/dev/null
		run_job "${job[@]}"
	} </dev/null &
	kind_of[$!]=$1 name_of[$!]=${job[0]}
}

await_job() {	# wait until one of run_lanes's jobs ends
	local pid
	wait -n -p pid "${!name_of[@]}"
	case ${kind_of[$pid]} in
		waits) n_waiting=0 ;;
		computes) n_computing=$((n_computing - 1)) ;;
	esac
	$tell "${name_of[$pid]}"
	unset "name_of[$pid]" "kind_of[$pid]"
}

# begin_job NAME: return true if no other process has begun the program.
begin_job() { mkdir "build/check/$1.begun" 2>/dev/null; }

# run_begun NAME COMMAND...: run a program that begin_job has given to this process.
run_begun() {
	"${@:2}" >"build/check/$1.out" 2>&1
	echo $? >"build/check/$1.status"
}

# run_job NAME COMMAND...: run a program.  If the background runs it, or has run it, wait for its end.
# Without a background a program that is in two parts runs twice.
run_job() {
	local status=build/check/$1.status
	if begin_job "$1" || [ -z "${background:-}" ]; then
		run_begun "$@"
		return
	fi
	until [ -s "$status" ]; do
		background_runs || [ -s "$status" ] || echo 1 >"$status"
		sleep 0.2
	done
}

# Print the 20 programs that took most CPU, the longest tests of C programs, and the CPU seconds of each
# part.
tell_times() {
	[ -s build/check/times ] || return 0
	echo "most CPU (seconds of CPU, seconds, program; all are in build/check/times):"
	sort -k3,3nr build/check/times | head -n 20 | awk '{ printf "%8.1f %8.1f  %s\n", $3, $2, $1 }'
	echo "longest tests (ms, program: test):"
	grep -aE '^(ok |bad) +[0-9]+ ms ' build/check/*.out 2>/dev/null | sed -E "s#^build/check/(.*)\\.out:(ok |bad) +([0-9]+) ms +[0-9]+ checks +#\\3 \\1: #" |
		sort -rn | head -n 20 | sed 's/^/  /'
	awk '{
			part = $1
			if (match(part, /^(asan|tsan|emu|tap-pg[0-9]+)-/)) part = substr(part, 1, RLENGTH - 1)
			else if (part ~ /^(test_|conform)|_golden$/) part = "plain"
			else if (part ~ /^fuzz_[a-z]/ && part != "fuzz_sql") part = "fuzz"
			cpu[part] += $3
		}
		END { for (part in cpu) printf "%.0f %s\n", cpu[part], part }' build/check/times | sort -rn |
		awk '{ all += $1; line = line (line ? ", " : "") $2 " " $1 } END { print "CPU seconds: " line "; together " all }'
}
