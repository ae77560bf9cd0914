#!/bin/bash
# Mount what a root needs and run a script with it: `enter.sh ROOT ARCHIVES SCRIPT`, as the first process of
# new name spaces for processes and mounts (tests/deb/roots.sh).  ARCHIVES keeps the packages that apt gets.
set -e
mount --make-rprivate /
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
mkdir -p "$1/var/cache/apt/archives"
mount --bind "$2" "$1/var/cache/apt/archives"
export ROOT=$1
# no exec: the first process shall outlive servers that lose their parents
bash "$3"
