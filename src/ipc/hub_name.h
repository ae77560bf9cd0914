/*
 * hub_name.h
 *	  Recognize names of Hugging Face repositories where a path is expected.
 */
#ifndef VLLM_IPC_HUB_NAME_H
#define VLLM_IPC_HUB_NAME_H

#include <stdbool.h>

typedef struct HubName
{
	char		command[320];	/* command that downloads it and prints its path */
} HubName;

/*
 * Return true if s is written as a repository name: org/name, org/name:Q4_K_M, org/name/file.gguf,
 * hf://..., https://huggingface.co/...; with `bare` also a name alone (gpt2).
 */
bool		hub_name(const char *s, bool bare, HubName *out);

#endif
