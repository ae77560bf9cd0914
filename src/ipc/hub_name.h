/*
 * hub_name.h
 *	  Names of Hugging Face's repositories where a path is wanted.
 */
#ifndef VLLM_IPC_HUB_NAME_H
#define VLLM_IPC_HUB_NAME_H

#include <stdbool.h>

typedef struct HubName
{
	char		command[512];	/* that downloads it */
	char		path[256];		/* where it is then */
} HubName;

/*
 * Is it written as a repository is: org/name, org/name:Q4_K_M, org/name/file.gguf, hf://...,
 * https://huggingface.co/...?
 * bare: a name alone (gpt2), too.
 */
bool		hub_name(const char *s, bool bare, HubName *out);

#endif
