/*
 * formats.c
 *	  How each family of models writes its reasoning: one ReasonFormat each (reasoning_internal.h).
 *
 * "As R1" is the rule of deepseek_r1: everything up to the end mark is reasoning, everything after it is
 * content; the start mark is often in the prompt, and may be missing.
 *
 * Each is tested by tests/parse/reason_NAME.json.
 */
#include "parsers/reasoning/reasoning_internal.h"

/* DeepSeek R1, QwQ: <think> (often in the prompt) and </think>; the rule itself. */
const ReasonFormat reason_deepseek_r1 = {.start = "<think>",.end = "</think>",.special = true};

/*
 * DeepSeek V3.1: as R1, if the template's `thinking` or `enable_thinking` is true; else the model does
 * not reason.
 */
const ReasonFormat reason_deepseek_v3 = {.start = "<think>",.end = "</think>",.off = true,.special = true};

/*
 * ERNIE 4.5: as R1; after </think>, blank lines and the tags <response> and </response> are not content.
 */
const ReasonFormat reason_ernie45 = {
	.start = "<think>",.end = "</think>",.open = "<response>",.close = "</response>",.special = true
};

/* GLM 4.5: as R1, unless the template's `enable_thinking` is false. */
const ReasonFormat reason_glm45 = {.start = "<think>",.end = "</think>",.switched = true,.special = true};

/* Granite 3.2: no tags, but "Here is my thought process:" and "Here is my response:". */
const ReasonFormat reason_granite = {.phrases = true};

/* Holo2: as R1, unless the template's `thinking` is false. */
const ReasonFormat reason_holo2 = {.start = "<think>",.end = "</think>",.switched = true,.special = true};

/*
 * Hunyuan-A13B: <think>, reasoning and </think>, <answer>, content and </answer>, on separate lines;
 * without <think> all is content.
 */
const ReasonFormat reason_hunyuan_a13b = {
	.start = "<think>",.end = "</think>",.needs_start = true,.lines = true,.open = "<answer>",
	.close = "</answer>"
};

/* No reasoning: all is content. */
const ReasonFormat reason_identity = {.identity = true};

/*
 * Kimi K2: as R1, unless the template's `thinking` is false; a section of tool calls also ends the
 * reasoning.
 */
const ReasonFormat reason_kimi_k2 = {
	.start = "<think>",.end = "</think>",.also_ends = "<|tool_calls_section_begin|>",.switched = true,
	.special = true
};

/* MiniMax-M2: as R1; its template writes <think>, so only </think> is generated. */
const ReasonFormat reason_minimax_m2 = {.start = "<think>",.end = "</think>",.special = true};

/*
 * MiniMax-M2 for clients that want the reasoning in the content, with the <think> that its template
 * wrote.
 */
const ReasonFormat reason_minimax_m2_append_think = {.start = "<think>",.append = true,.special = true};

/* Mistral's Magistral: [THINK] and [/THINK]; text outside of them is content. */
const ReasonFormat reason_mistral = {.start = "[THINK]",.end = "[/THINK]",.anywhere = true,.special = true};

/* Olmo 3: as R1, but the tags are no special tokens: they are text, split anywhere. */
const ReasonFormat reason_olmo3 = {.start = "<think>",.end = "</think>"};

/* gpt-oss: the channels of its messages (harmony.h). */
const ReasonFormat reason_openai_gptoss = {.harmony = true,.special = true};

/*
 * Qwen3: as R1; a tool call also ends the reasoning.  With the template's `enable_thinking` false, an
 * output without </think> is all content.
 */
const ReasonFormat reason_qwen3 = {
	.start = "<think>",.end = "</think>",.also_ends = "<tool_call>",.switched = true,.hold_off = true,
	.special = true
};

/* Seed-OSS: as R1, with <seed:think> and </seed:think>. */
const ReasonFormat reason_seed_oss = {.start = "<seed:think>",.end = "</seed:think>",.special = true};

/* Step-3: as R1; only </think> is generated. */
const ReasonFormat reason_step3 = {.start = "<think>",.end = "</think>",.special = true};
