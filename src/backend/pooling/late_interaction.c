/*
 * late_interaction.c
 *	  Late interaction: models whose token vectors are compared one by one (ColBERT, Khattab and Zaharia
 *	  2020, arXiv:2004.12832).
 *
 * Such a model distinguishes queries and documents.  Each has a prompt, which may be a single token, and
 * a length.  A query is padded with [MASK] tokens, whose vectors count, though the query's own tokens do
 * not attend to them unless the model was trained that way.  Punctuation in documents may be skipped.
 *
 * The configuration keys are those of loader/sentence_transformers_config.c, with the meaning that they
 * have in sentence-transformers' MultiVectorEncoder.  Tested by tests/golden/pool_golden.c.
 */
#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "backend/pooling/pooling_model.h"

PoolSide
late_side(const PoolModel *m, const char *prompt, size_t n)
{
	static const struct
	{
		const char *name;
		PoolSide	side;
	}			names[] = {
		{"query", SIDE_QUERY}, {"document", SIDE_DOCUMENT}, {"passage", SIDE_DOCUMENT},
		{"corpus", SIDE_DOCUMENT},
	};

	for (size_t i = 0; m->by_token && i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i].name) == n && memcmp(names[i].name, prompt, n) == 0)
			return names[i].side;
	return SIDE_NONE;
}

/*
 * Add PyLate's prefix before the prompt.  If the vocabulary has the prefix or its first word as a token,
 * that token is used, even if the tokenizer would not find it in a text.
 */
static void
read_prefix(PoolModel *m, const char *name, const char *prefix)
{
	int			at = poolmodel_prompt(m, name, strlen(name));
	PoolPrompt *p = &m->prompts[at < 0 ? m->n_prompts : at];
	size_t		n = strlen(prefix);
	size_t		word = strcspn(prefix, " \t\n");
	Buf			text = {0};

	if (at < 0)
	{
		m->n_prompts++;
		p->name = mem_strdup(name);
	}
	else if (strncmp(p->text, prefix, n) == 0)
		n = 0;
	buf_add(&text, prefix, n);
	buf_addstr(&text, at < 0 ? "" : p->text);
	mem_free(p->text);
	p->text = mem_strndup(text.data != NULL ? text.data : "", text.len);
	buf_free(&text);
	n = strlen(prefix);
	p->first = m->tok != NULL && n > 0 ? tok_find(m->tok, prefix, n) : -1;
	p->len = n;
	if (p->first < 0 && word > 0 && m->tok != NULL)
	{
		p->first = tok_find(m->tok, prefix, word);
		p->len = word;
	}
}

static bool
read_expansion(PoolModel *m, const Conf *c, Err *e)
{
	Late	   *l = &m->late;
	const char *strategy = conf_str(c, "st.query_expansion.strategy", NULL);
	const char *token = conf_str(c, "st.query_expansion.token", NULL);
	double		n = conf_num(c, "st.query_expansion.length", 0);

	if (strategy == NULL)
		return true;
	if (strcmp(strategy, "fixed") != 0 && strcmp(strategy, "min") != 0)
		return err_set(e, ERR_UNSUPPORTED, "query expansion \"%.60s\" is not supported", strategy);
	if (n < 1 || n > m->max_len)
		return err_set(e, ERR_BAD_FILE, "query expansion to %g tokens does not fit the maximum model length "
										"of %d", n, m->max_len);
	if (strcmp(conf_str(c, "st.padding_side", "right"), "left") == 0)
		return err_set(e, ERR_UNSUPPORTED,
					   "query expansion is not supported with a tokenizer whose \"padding_side\" is "
					   "\"left\"");
	l->expand_to = (int) n;
	if (strcmp(strategy, "fixed") == 0)
		l->limit[SIDE_QUERY] = l->expand_to;
	l->hidden = !conf_bool(c, "st.query_expansion.attend", false);
	if (l->hidden && !m->info->both_ways)
		return err_set(e, ERR_UNSUPPORTED,
					   "query expansion with tokens that are not attended to is not supported in a causal "
					   "model");
	if (l->hidden && m->info->reach > 0 && l->expand_to > m->info->reach)
		return err_set(e, ERR_UNSUPPORTED,
					   "query expansion to %d tokens is not supported in a model whose layers see %d to "
					   "either side", l->expand_to, m->info->reach);
	if (token == NULL)
		token = conf_str(c, "st.mask_token", conf_str(c, "st.eos_token", ""));
	l->expand_id = m->tok != NULL ? tok_find(m->tok, token, strlen(token)) : 0;
	return l->expand_id >= 0 ||
		err_set(e, ERR_BAD_FILE, "the vocabulary has no token \"%.60s\", with which queries are padded",
				token);
}

static void
read_skiplist(PoolModel *m, const Conf *c)
{
	size_t		n;
	const char *const *words = conf_strs(c, "st.skiplist", &n);
	size_t		n_tasks;
	const char *const *tasks = conf_strs(c, "st.skiplist_tasks", &n_tasks);

	for (size_t i = 0; m->tok != NULL && i < n; i++)
	{
		int32_t		id = tok_find(m->tok, words[i], strlen(words[i]));

		if (id >= 0)
			intvec_push(&m->late.skip, id);
	}
	m->late.skips[SIDE_DOCUMENT] = n_tasks == 0;
	for (size_t i = 0; i < n_tasks; i++)
	{
		PoolSide	side = late_side(m, tasks[i], strlen(tasks[i]));

		m->late.skips[side] = side != SIDE_NONE;
	}
	/* a text that is neither is treated as a document */
	m->late.skips[SIDE_NONE] = m->late.skips[SIDE_DOCUMENT];
}

bool
late_read(PoolModel *m, const Conf *c, Err *e)
{
	Late	   *l = &m->late;

	if (!m->by_token)
		return true;
	l->limit[SIDE_QUERY] = (int) conf_num(c, "st.query_length", 0);
	l->limit[SIDE_DOCUMENT] = (int) conf_num(c, "st.document_length", 0);
	l->mean = strcmp(conf_str(c, "st.similarity_fn_name", ""), "meanmaxsim") == 0;
	if (conf_has(c, "st.query_prefix"))
		read_prefix(m, "query", conf_str(c, "st.query_prefix", ""));
	if (conf_has(c, "st.document_prefix"))
		read_prefix(m, "document", conf_str(c, "st.document_prefix", ""));
	read_skiplist(m, c);
	return read_expansion(m, c, e);
}

void
late_finish(const Late *l, PoolSide side, PoolSeq *s, int *filled)
{
	int			n = (int) s->ids.len;

	*filled = side == SIDE_QUERY && l->expand_to > n ? l->expand_to - n : 0;
	if (*filled > 0 && l->hidden)
		s->seen_to = n;
	for (int i = 0; i < *filled; i++)
		intvec_push(&s->ids, l->expand_id);
	for (size_t i = 0; l->skips[side] && i < s->ids.len; i++)
		for (size_t k = 0; k < l->skip.len; k++)
			if (s->ids.data[i] == l->skip.data[k])
			{
				intvec_push(&s->dropped, (int32_t) i);
				break;
			}
}
