/*
 * pooling_model.c
 *	  The configuration of pooling in a model's files: instructions, labels, lengths, widths, and the
 *	  template by which a language model scores a pair of texts.
 *
 * Configuration keys are those of config.json and those under "st."
 * (loader/sentence_transformers_config.c).
 *
 * Tested by tests/golden/pool_golden.c.
 */
#include "backend/pooling/pooling_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/alloc.h"

/* Key under which src/model looks for a score's tokens (model/layers/heads.h). */
#define TOKENS_KEY "override.classifier_token_ids"

/*
 * The prompt with which Qwen3-Reranker was trained (Zhang et al. 2025, arXiv:2506.05176); its files have
 * no template for pairs.
 */
static const char reranker_template[] =
"<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
"provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n"
"<Instruct>: {{ instruction | default('Given a web search query, retrieve relevant passages that answer the "
"query') }}\n<Query>: {{ messages | selectattr('role', 'eq', 'query') | map(attribute='content') | first }}\n"
"<Document>: {{ messages | selectattr('role', 'eq', 'document') | map(attribute='content') | first "
"}}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>{{ '\n\n' }}";

/* ---- before the model is made ---- */

static bool
set_tokens(Files *f, const char *const *names, size_t n, Err *e)
{
	Tok		   *tok = source_tok(f, e);
	double		ids[2] = {0};
	bool		ok = tok != NULL;

	for (size_t i = 0; ok && i < n && i < 2; i++)
	{
		ids[i] = tok_find(tok, names[i], strlen(names[i]));
		if (ids[i] < 0)
			ok = err_set(e, ERR_INVALID,
						 "the vocabulary has no token \"%.60s\", which the model needs for its "
						 "score", names[i]);
	}
	if (ok)
		files_set_nums(f, TOKENS_KEY, ids, n < 2 ? n : 2);
	tok_free(tok);
	return ok;
}

bool
pooling_prepare(Files *f, const char *hf_overrides, Err *e)
{
	static const char *const yes_no[] = {"no", "yes"};
	const Conf *c = files_conf(f);
	size_t		n;
	const char *const *names;
	double		ids[2] = {conf_num(c, "st.false_token_id", -1), conf_num(c, "st.true_token_id", -1)};

	if (!files_override(f, hf_overrides, e))
		return false;
	names = conf_strs(c, "classifier_from_token", &n);
	if (n > 2)
		return err_set(e, ERR_INVALID, "\"classifier_from_token\" must be one or two tokens");
	if (n > 0)
		return set_tokens(f, names, n, e);
	if (conf_bool(c, "is_original_qwen3_reranker", false))
		return set_tokens(f, yes_no, 2, e);
	if (ids[1] >= 0)
		files_set_nums(f, TOKENS_KEY, ids[0] >= 0 ? ids : ids + 1, ids[0] >= 0 ? 2 : 1);
	return true;
}

/* ---- pooling configuration ---- */

static void
read_prompts(PoolModel *m, const Conf *c)
{
	size_t		n;
	const char *const *names = conf_strs(c, "st.prompt_names", &n);
	const char *dflt = conf_str(c, "st.default_prompt_name", NULL);

	/* room for the two that late_interaction.c may add */
	m->prompts = mem_zalloc((n + 2) * sizeof(PoolPrompt));
	m->default_prompt = -1;
	for (size_t i = 0; i < n; i++)
	{
		char		key[300];

		snprintf(key, sizeof(key), "st.prompts.%s", names[i]);
		m->prompts[m->n_prompts++] = (PoolPrompt) {.name = mem_strdup(names[i]),
												   .text = mem_strdup(conf_str(c, key, "")),.first = -1};
	}
	if (dflt != NULL)
		m->default_prompt = poolmodel_prompt(m, dflt, strlen(dflt));
}

int
poolmodel_prompt(const PoolModel *m, const char *name, size_t n)
{
	for (int i = 0; i < m->n_prompts; i++)
		if (strlen(m->prompts[i].name) == n && memcmp(m->prompts[i].name, name, n) == 0)
			return i;
	return -1;
}

int
poolmodel_side_prompt(const PoolModel *m, PoolSide side)
{
	static const char *const names[][3] = {[SIDE_QUERY] = {"query"},
										   [SIDE_DOCUMENT] = {"document", "passage", "corpus"}};
	int			at = -1;

	ALWAYS(side == SIDE_NONE || side == SIDE_QUERY || side == SIDE_DOCUMENT);
	for (int i = 0; i < 3 && at < 0 && names[side][i] != NULL; i++)
		at = poolmodel_prompt(m, names[side][i], strlen(names[side][i]));
	return at;
}

/* Read the labels; those without a name get the names that transformers gives them. */
static void
read_labels(PoolModel *m, const Conf *c)
{
	int			n = m->info->n_labels;

	if (n == 0)
		return;
	m->labels = mem_zalloc((size_t) (n + 1) * sizeof(char *));
	for (int i = 0; i < n; i++)
	{
		char		key[32];
		char		name[32];

		snprintf(key, sizeof(key), "id2label.%d", i);
		snprintf(name, sizeof(name), "LABEL_%d", i);
		m->labels[i] = mem_strdup(conf_str(c, key, name));
	}
}

static void
read_widths(PoolModel *m, const Conf *c)
{
	size_t		n;
	const double *v = conf_nums(c, "matryoshka_dimensions", &n);

	m->cut = (int) conf_num(c, "st.truncate_dim", 0);
	if (m->cut < 0 || m->cut >= m->info->pools[PT_EMBED].width)
		m->cut = 0;
	m->matryoshka = n > 0 || m->cut > 0 || conf_bool(c, "is_matryoshka", false);
	m->widths = mem_alloc((n > 0 ? n : 1) * sizeof(int));
	for (size_t i = 0; i < n; i++)
		if (v[i] >= 1 && v[i] <= m->info->pools[PT_EMBED].width)
			m->widths[m->n_widths++] = (int) v[i];
}

/* Count the tokens that are added around texts. */
static int
count_special(const Tok *tok, bool pair)
{
	IntVec		none = {0};
	IntVec		ids = {0};
	IntVec		types = {0};
	int			n;

	tok_wrap(tok, &none, pair ? &none : NULL, true, &ids, &types);
	n = (int) ids.len;
	intvec_free(&ids);
	intvec_free(&types);
	return n;
}

PoolModel *
poolmodel_new(const ModelInfo *info, const Tok *tok, int max_model_len, const Conf *conf,
			  const ChatModel *chat, Err *e)
{
	PoolModel  *m = mem_zalloc(sizeof(*m));

	m->info = info;
	m->tok = tok;
	m->chat = chat;
	m->max_len = max_model_len;
	if (tok != NULL)
	{
		m->special[0] = count_special(tok, false);
		m->special[1] = count_special(tok, true);
	}
	m->typed = !conf_bool(conf, "st.no_token_types", false);
	m->by_token = conf_bool(conf, "st.by_token", false) && (info->tasks & 1u << PT_TOKEN_EMBED) != 0;
	m->include_prompt = conf_bool(conf, "st.include_prompt", true);
	m->by_logits = conf_has(conf, TOKENS_KEY);
	m->reward_token = (int32_t) conf_num(conf, "reward_token_id", -1);
	if (m->by_logits)
	{
		m->reranker = chat_new();
		chat_template(m->reranker, "default", reranker_template, strlen(reranker_template));
	}
	read_prompts(m, conf);
	read_labels(m, conf);
	read_widths(m, conf);
	if (m->reward_token < info->vocab_size ? late_read(m, conf, e) :
		err_set(e, ERR_BAD_FILE, "model configuration has \"reward_token_id\" = %d", m->reward_token))
		return m;
	poolmodel_free(m);
	return NULL;
}

void
poolmodel_shorten(PoolModel *m, int tokens)
{
	if (tokens < m->max_len)
		m->max_len = tokens;
}

void
poolmodel_free(PoolModel *m)
{
	if (m == NULL)
		return;
	for (int i = 0; i < m->n_prompts; i++)
	{
		mem_free(m->prompts[i].name);
		mem_free(m->prompts[i].text);
	}
	mem_free(m->prompts);
	for (int i = 0; m->labels != NULL && m->labels[i] != NULL; i++)
		mem_free(m->labels[i]);
	mem_free(m->labels);
	mem_free(m->widths);
	intvec_free(&m->late.skip);
	chat_free(m->reranker);
	mem_free(m);
}

const char *const *
pooling_labels(const PoolModel *m, PoolTask task)
{
	bool		labelled = task == PT_CLASSIFY || task == PT_TOKEN_CLASSIFY ||
		(task == PT_REWARD && m->info->n_labels > 1);

	return labelled ? (const char *const *) m->labels : NULL;
}
