# is.sh: count what the tests of the packages find.  Sourced, not run.

is() {	# is WHAT GOT WANTED (an extended regular expression)
	if [[ $2 =~ $3 ]]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'FAILED %s\n%s\n' "$1" "$2" | head -n 20
	fi
}

skip() {	# skip N WHY
	skipped=$((skipped + $1))
	echo "skipped $1: $2"
}

tell() {	# tell NAME: print the counts
	echo "$1: $passed passed, $failed failed, $skipped skipped"
	[ "$failed" = 0 ]
}
