# old.sh: packages of version 0.9, for the test of an upgrade.  Sourced, not run.

# The programs are today's: only the SQL scripts and the names of versions are old.  So this tests what dpkg
# and ALTER EXTENSION do; the upgrade of SQL objects is tested by tests/t/030_upgrade.pl.
old_packages() {	# old_packages FROM TO
	local deb tree ext f
	rm -rf "$2" && mkdir -p "$2"
	for deb in "$1"/*.deb; do
		[[ $deb != *dbgsym* ]] || continue
		tree=$2/tree
		rm -rf "$tree" && dpkg-deb -R "$deb" "$tree"
		sed -i -E "s/^(Version: ).*/\\10.9-1/; s/\\(= [^)]*-1\\)/(= 0.9-1)/g" "$tree/DEBIAN/control"
		ext=$(find "$tree" -type d -name extension -path '*/share/*')
		if [ -n "$ext" ]; then
			rm "$ext"/*.sql
			cp tests/upgrade/*.sql "$ext/"
			for f in vllm_pg:0.9 vllm_pg_vector:0.5; do
				sed -i "s/^default_version = .*/default_version = '${f#*:}'/" "$ext/${f%:*}.control"
			done
			(cd "$tree" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
		fi
		dpkg-deb --root-owner-group -b "$tree" "$2" >/dev/null
	done
	rm -rf "$2/tree"
}
