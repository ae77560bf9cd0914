/*
 * cgroup.h
 *	  The control groups of this process.
 */
#ifndef VLLM_BASE_MACHINE_CGROUP_H
#define VLLM_BASE_MACHINE_CGROUP_H

/* dir: the directory of a group; version: 1 or 2. */
typedef void (*CgroupFn) (void *arg, const char *dir, int version);

/*
 * Call fn for each group of this process in which `controller` (e.g. "cpu") may set a limit, and for
 * each group above it up to the mount.  root: "" (in tests a folder that stands for /).
 */
void		cgroup_each(const char *root, const char *controller, CgroupFn fn, void *arg);

#endif
