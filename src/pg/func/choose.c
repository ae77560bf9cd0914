/*
 * choose.c
 *	  Decisions by log-probability: llm_choose, llm_choice_probs, llm_filter,
 *	  llm_filter_prob, llm_loglikelihood, llm_perplexity (rows of engine_func.def).
 *
 * The engine returns each token's log-probability after the tokens before it (WK_LOGPROBS); nothing
 * is generated and no text is parsed.  How the result is computed from these numbers depends on
 * labels and options, which the request contains.  So a result is read from the request and its reply
 * (NOTE has the values that the engine doesn't need).
 *
 * A prompt is plain text, as in llm_generate(), or with chat the turn of a user, after which the
 * model's template starts the assistant's turn.  chat NULL: with a template if the model has one;
 * both forms are sent to the engine.
 *
 * Tests: tests/sql/18_choose.sql, tests/t/028_choose.pl.
 */
#include "postgres.h"

#include <ctype.h>
#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "pg/catalog/model_catalog.h"
#include "pg/call/loglikelihood.h"
#include "pg/client/client.h"
#include "pg/util/encoding.h"
#include "pg/util/named_args.h"
#include "pg/call/generate.h"
#include "pg/vllm_pg.h"

/* the engine's POOL_MAX_CHOICES */
#define MAX_LABELS	4096

/* Indexes of a function's arguments; -1 = none. */
typedef struct ChooseArgs
{
	int			model;
	int			timeout;
	int			chat;
	int			template;
} ChooseArgs;

static const ChooseArgs choose_args = {4, 5, 3, -1};
static const ChooseArgs filter_args = {3, 6, 5, 4};
static const ChooseArgs filter_prob_args = {2, 5, 4, 3};
static const ChooseArgs loglikelihood_args = {2, 3, -1, -1};
static const ChooseArgs perplexity_args = {1, 2, -1, -1};

#define CHOOSE_ARG_LABELS		1
#define CHOOSE_ARG_NORMALIZATION	2
#define FILTER_ARG_THRESHOLD	2

/* The prompt of llm_filter(); documented in docs/user/embeddings.md. */
static const char filter_template[] =
	"Condition: {0}\n"
	"Text: {1}\n"
	"Is the condition true of the text? Answer Yes or No.\n"
	"Answer: ";
static const char *const filter_answers[] = {"Yes", "No"};

/* ---- requests ---- */

static bool
chat_is(FunctionCallInfo fcinfo, const ChooseArgs *a, bool wanted)
{
	return a->chat >= 0 && (PG_ARGISNULL(a->chat) || PG_GETARG_BOOL(a->chat) == wanted);
}

static void
head(SqlRequest *r, FunctionCallInfo fcinfo, const ChooseArgs *a)
{
	WireOut		out = vclient_out(&r->body);
	int			on_error = fn_arg_given(fcinfo, "on_error");

	generate_model_head(r, WK_LOGPROBS, fcinfo, a->model);
	if (on_error >= 0)
		r->on_error = on_error_option(text_to_cstring(PG_GETARG_TEXT_PP(on_error)));
	if (!PG_ARGISNULL(a->timeout))
		r->timeout_ms = PG_GETARG_INT32(a->timeout);
	if (r->timeout_ms < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("timeout_ms must not be negative, got %d", r->timeout_ms)));
	if (chat_is(fcinfo, a, true))
		wire_put_int(&out, WTAG_GENERATION_PROMPT, 1);
}

static void
put_note(SqlRequest *r, const char *note)
{
	WireOut		out = vclient_out(&r->body);

	wire_put_str(&out, WTAG_NOTE, note, strlen(note));
}

static ErrorData *
must_not_be_empty(const char *what)
{
	ErrorData  *e = palloc0(sizeof(ErrorData));

	e->elevel = ERROR;
	e->sqlerrcode = ERRCODE_INVALID_PARAMETER_VALUE;
	e->message = psprintf("%s must not be empty", what);
	e->assoc_context = CurrentMemoryContext;
	return e;
}

/* The template determines the white space before the output. */
static size_t
without_space(const char *s, size_t n)
{
	while (n > 0 && isspace((unsigned char) s[n - 1]))
		n--;
	return n;
}

/* Append a prompt, a user's message, or both. */
static ErrorData *
put_prompt(SqlRequest *r, FunctionCallInfo fcinfo, const ChooseArgs *a, const text *prompt)
{
	ErrorData  *refused = generate_check_length("prompt", prompt);
	WireOut		out = vclient_out(&r->body);
	const char *s = VARDATA_ANY(prompt);
	size_t		n = VARSIZE_ANY_EXHDR(prompt);

	if (refused != NULL)
		return refused;
	if (a->chat < 0 || chat_is(fcinfo, a, false))
		wire_put_text(&out, WTAG_PROMPT, s, n);
	if (chat_is(fcinfo, a, true))
	{
		StringInfoData json;
		char	   *content = pnstrdup(s, without_space(s, n));

		initStringInfo(&json);
		appendStringInfoString(&json, "[{\"role\": \"user\", \"content\": ");
		escape_json(&json, content);
		appendStringInfoString(&json, "}]");
		wire_put_text(&out, WTAG_MESSAGES, json.data, json.len);
		pfree(json.data);
		pfree(content);
	}
	return NULL;
}

/* ---- llm_choose(prompt, labels, normalization, chat, model, timeout_ms) ---- */

static void
bad_labels(int sqlstate, const char *message)
{
	ereport(ERROR, (errcode(sqlstate), errmsg("%s", message)));
}

static int
compare_labels(const void *a, const void *b)
{
	const text *x = *(text *const *) a;
	const text *y = *(text *const *) b;
	Size		n = VARSIZE_ANY_EXHDR(x);
	Size		m = VARSIZE_ANY_EXHDR(y);
	int			c = memcmp(VARDATA_ANY(x), VARDATA_ANY(y), Min(n, m));

	return c != 0 ? c : (n > m) - (n < m);
}

static void
check_labels(text **labels, int n)
{
	text	  **sorted = palloc(sizeof(text *) * n);

	for (int i = 0; i < n; i++)
	{
		ErrorData  *refused = generate_check_length("label", labels[i]);

		if (refused != NULL)
			ThrowErrorData(refused);
		if (VARSIZE_ANY_EXHDR(labels[i]) == 0)
			bad_labels(ERRCODE_INVALID_PARAMETER_VALUE, "a label must not be empty");
	}
	memcpy(sorted, labels, sizeof(text *) * n);
	qsort(sorted, n, sizeof(text *), compare_labels);
	for (int i = 1; i < n; i++)
		if (compare_labels(&sorted[i - 1], &sorted[i]) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("label \"%s\" is given more than once", text_to_cstring(sorted[i]))));
	pfree(sorted);
}

static text **
labels_of(FunctionCallInfo fcinfo, int *n)
{
	ArrayType  *a;
	Datum	   *values;
	text	  **labels;

	if (PG_ARGISNULL(CHOOSE_ARG_LABELS))
		bad_labels(ERRCODE_NULL_VALUE_NOT_ALLOWED, "labels must not be null");
	a = PG_GETARG_ARRAYTYPE_P(CHOOSE_ARG_LABELS);
	if (ARR_NDIM(a) > 1)
		bad_labels(ERRCODE_ARRAY_SUBSCRIPT_ERROR, "labels must be a one-dimensional array");
	if (array_contains_nulls(a))
		bad_labels(ERRCODE_NULL_VALUE_NOT_ALLOWED, "a label must not be null");
	deconstruct_array(a, TEXTOID, -1, false, TYPALIGN_INT, &values, NULL, n);
	if (*n == 0)
		bad_labels(ERRCODE_INVALID_PARAMETER_VALUE, "there must be at least one label");
	if (*n > MAX_LABELS)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("%d labels are too many", *n),
				 errdetail("The limit is %d.", MAX_LABELS)));
	labels = palloc(sizeof(text *) * *n);
	for (int i = 0; i < *n; i++)
		labels[i] = DatumGetTextPP(values[i]);
	check_labels(labels, *n);
	return labels;
}

static const char *
normalization(FunctionCallInfo fcinfo)
{
	const char *s = PG_ARGISNULL(CHOOSE_ARG_NORMALIZATION) ? "sum" :
		text_to_cstring(PG_GETARG_TEXT_PP(CHOOSE_ARG_NORMALIZATION));

	if (strcmp(s, "sum") != 0 && strcmp(s, "mean") != 0 && strcmp(s, "bytes") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("normalization must be sum, mean or bytes, got \"%s\"", s)));
	return s;
}

void
choose_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	WireOut		out = vclient_out(&r->body);
	int			n;
	text	  **labels = labels_of(fcinfo, &n);

	put_note(r, normalization(fcinfo));
	head(r, fcinfo, &choose_args);
	for (int i = 0; i < n; i++)
		wire_put_text(&out, WTAG_CHOICE, VARDATA_ANY(labels[i]), VARSIZE_ANY_EXHDR(labels[i]));
}

ErrorData *
choose_input(SqlRequest *r, FunctionCallInfo fcinfo)
{
	return put_prompt(r, fcinfo, &choose_args, PG_GETARG_TEXT_PP(0));
}

/* ---- llm_filter(instruction, input, threshold, model, template, chat, timeout_ms) ---- */

static void
put_answers(SqlRequest *r)
{
	WireOut		out = vclient_out(&r->body);

	for (int i = 0; i < lengthof(filter_answers); i++)
		wire_put_str(&out, WTAG_CHOICE, filter_answers[i], strlen(filter_answers[i]));
}

static double
threshold(FunctionCallInfo fcinfo)
{
	return PG_ARGISNULL(FILTER_ARG_THRESHOLD) ? 0.5 : PG_GETARG_FLOAT8(FILTER_ARG_THRESHOLD);
}

void
filter_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	double		t = threshold(fcinfo);

	if (!(t >= 0 && t <= 1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("threshold must be between 0 and 1, got %g", t)));
	head(r, fcinfo, &filter_args);
	put_answers(r);
}

void
filter_prob_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	head(r, fcinfo, &filter_prob_args);
	put_answers(r);
}

static ErrorData *
put_question(SqlRequest *r, FunctionCallInfo fcinfo, const ChooseArgs *a)
{
	text	   *args[2] = {PG_GETARG_TEXT_PP(0), PG_GETARG_TEXT_PP(1)};
	text	   *own = PG_ARGISNULL(a->template) ? NULL : PG_GETARG_TEXT_PP(a->template);
	StringInfoData s;
	ErrorData  *refused;

	if (own == NULL && without_space(VARDATA_ANY(args[0]), VARSIZE_ANY_EXHDR(args[0])) == 0)
		return must_not_be_empty("instruction");
	initStringInfo(&s);
	refused = own != NULL ? format_template(&s, VARDATA_ANY(own), VARSIZE_ANY_EXHDR(own), args, 2) :
		format_template(&s, filter_template, strlen(filter_template), args, 2);
	if (refused == NULL)
		refused = put_prompt(r, fcinfo, a, cstring_to_text_with_len(s.data, s.len));
	pfree(s.data);
	return refused;
}

ErrorData *
filter_input(SqlRequest *r, FunctionCallInfo fcinfo)
{
	int			lora = fn_arg_given(fcinfo, "lora");
	int			named = lora >= 0 ? lora : filter_args.model;
	const char *model = PG_ARGISNULL(named) ? vllm_model : text_to_cstring(PG_GETARG_TEXT_PP(named));

	put_note(r, psprintf("%.17g " UINT64_FORMAT, threshold(fcinfo),
						 selectivity_key(model, text_to_cstring(PG_GETARG_TEXT_PP(0)))));
	return put_question(r, fcinfo, &filter_args);
}

ErrorData *
filter_prob_input(SqlRequest *r, FunctionCallInfo fcinfo)
{
	return put_question(r, fcinfo, &filter_prob_args);
}

/* ---- llm_loglikelihood(context, continuation, model, timeout_ms) ---- */

void
loglikelihood_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	head(r, fcinfo, &loglikelihood_args);
}

ErrorData *
loglikelihood_input(SqlRequest *r, FunctionCallInfo fcinfo)
{
	text	   *more = PG_GETARG_TEXT_PP(1);
	ErrorData  *refused = generate_check_length("continuation", more);
	WireOut		out = vclient_out(&r->body);

	if (refused == NULL && VARSIZE_ANY_EXHDR(more) == 0)
		refused = must_not_be_empty("continuation");
	if (refused == NULL)
		refused = put_prompt(r, fcinfo, &loglikelihood_args, PG_GETARG_TEXT_PP(0));
	if (refused == NULL)
		wire_put_text(&out, WTAG_CHOICE, VARDATA_ANY(more), VARSIZE_ANY_EXHDR(more));
	return refused;
}

/* ---- llm_perplexity(input, model, timeout_ms) ---- */

void
perplexity_head(SqlRequest *r, FunctionCallInfo fcinfo)
{
	head(r, fcinfo, &perplexity_args);
}

ErrorData *
perplexity_input(SqlRequest *r, FunctionCallInfo fcinfo)
{
	text	   *input = PG_GETARG_TEXT_PP(0);

	if (VARSIZE_ANY_EXHDR(input) == 0)
		return must_not_be_empty("input");
	return put_prompt(r, fcinfo, &perplexity_args, input);
}

/* ---- replies ---- */

typedef struct ChooseChoice
{
	const char *label;			/* UTF-8, in the request */
	size_t		len;
	int			n;				/* number of tokens */
	double		logprob;		/* sum over all tokens */
	double		score;			/* normalized logprob */
	double		prob;			/* probability among the choices */
	bool		greedy;
} ChooseChoice;

typedef struct ChooseAnswer
{
	int			n;
	ChooseChoice *c;				/* label is NULL if the request has no labels */
	int			best;
	const char *note;			/* not terminated */
	size_t		note_len;
} ChooseAnswer;

static void
read_request(const Reply *reply, ChooseAnswer *a)
{
	WireIn		in = {reply->request, reply->request + reply->request_len};
	WireField	f;
	int			n = 0;

	while (wire_next(&in, &f) > 0)
	{
		if (f.tag == WTAG_NOTE)
		{
			a->note = f.s;
			a->note_len = f.n;
		}
		else if (f.tag == WTAG_CHOICE && n < a->n)
		{
			a->c[n].label = f.s;
			a->c[n++].len = f.n;
		}
	}
}

static bool
note_is(const ChooseAnswer *a, const char *s)
{
	return a->note_len == strlen(s) && memcmp(a->note, s, a->note_len) == 0;
}

/* Compute the probabilities of the choices, and which has the largest; of equal ones the first. */
static void
weigh(ChooseAnswer *a)
{
	double		sum = 0;

	for (int i = 0; i < a->n; i++)
	{
		ChooseChoice *c = &a->c[i];

		c->score = note_is(a, "mean") ? c->logprob / c->n :
			note_is(a, "bytes") ? c->logprob / (double) c->len : c->logprob;
		if (c->score > a->c[a->best].score)
			a->best = i;
	}
	for (int i = 0; i < a->n; i++)
		sum += a->c[i].prob = exp(a->c[i].score - a->c[a->best].score);
	for (int i = 0; i < a->n; i++)
		a->c[i].prob /= sum;
}

static void
read_answer(const Reply *reply, ChooseAnswer *a)
{
	float	   *all = palloc(sizeof(float) * Max(reply->floats.n, 1));
	size_t		at = 0;
	bool		fits = reply->greedy.n == reply->counts.n;

	memset(a, 0, sizeof(*a));
	a->n = (int) reply->counts.n;
	a->c = palloc0(sizeof(ChooseChoice) * Max(a->n, 1));
	wire_floats(&reply->floats, all);
	for (int i = 0; fits && i < a->n; i++)
	{
		ChooseChoice *c = &a->c[i];

		c->n = wire_int_at(&reply->counts, i);
		fits = c->n >= 1 && c->n <= reply->floats.n - at;
		for (int k = 0; fits && k < c->n; k++)
			c->logprob += all[at++];
		c->greedy = wire_int_at(&reply->greedy, i) != 0;
	}
	if (a->n < 1 || !fits || at != reply->floats.n)
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("malformed reply from the engine")));
	pfree(all);
	read_request(reply, a);
	weigh(a);
}

bool
choose_probs(const Reply *reply, ChooseProbs *p)
{
	ChooseAnswer a;
	char	   *note;
	char	   *end;

	read_answer(reply, &a);
	note = pnstrdup(a.note != NULL ? a.note : "", a.note_len);
	p->first = a.c[0].prob;
	p->best = a.c[a.best].prob;
	p->threshold = strtod(note, &end);
	/* llm_filter()'s note is two numbers, llm_choose()'s a word */
	if (end == note || *end != ' ')
		p->threshold = NAN;
	return a.n > 1;
}

Datum
choose_result(const Reply *reply, Oid rettype, bool *isnull)
{
	ChooseAnswer a;

	read_answer(reply, &a);
	*isnull = false;
	return PointerGetDatum(text_from_wire(a.c[a.best].label, a.c[a.best].len));
}

/* llm_choice[]: (label, logprob, prob), in the order of labels */
Datum
choices_result(const Reply *reply, Oid rettype, bool *isnull)
{
	Oid			type = get_element_type(rettype);
	TupleDesc	desc = lookup_rowtype_tupdesc(type, -1);
	Datum	   *rows;
	ChooseAnswer a;

	if (desc->natts != 3)
		elog(ERROR, "return type must be llm_choice[]");
	read_answer(reply, &a);
	rows = palloc(sizeof(Datum) * a.n);
	for (int i = 0; i < a.n; i++)
	{
		const ChooseChoice *c = &a.c[i];
		bool		nulls[3] = {0};
		Datum		values[3] = {
			PointerGetDatum(text_from_wire(c->label, c->len)), Float8GetDatum(c->logprob),
			Float8GetDatum(c->prob)
		};

		rows[i] = HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
	}
	ReleaseTupleDesc(desc);
	*isnull = false;
	return PointerGetDatum(construct_array(rows, a.n, type, -1, false, TYPALIGN_DOUBLE));
}

Datum
filter_prob_result(const Reply *reply, Oid rettype, bool *isnull)
{
	ChooseAnswer a;

	read_answer(reply, &a);
	*isnull = false;
	return Float8GetDatum(a.c[0].prob);
}

Datum
filter_result(const Reply *reply, Oid rettype, bool *isnull)
{
	ChooseAnswer a;
	char	   *note;
	char	   *end;
	bool		passed;

	read_answer(reply, &a);
	note = pnstrdup(a.note, a.note_len);
	passed = a.c[0].prob >= strtod(note, &end);
	selectivity_count(strtou64(end, NULL, 10), passed);
	pfree(note);
	*isnull = false;
	return BoolGetDatum(passed);
}

/* (logprob, tokens, is_greedy) */
Datum
loglikelihood_result(const Reply *reply, Oid rettype, bool *isnull)
{
	TupleDesc	desc = lookup_rowtype_tupdesc(rettype, -1);
	bool		nulls[3] = {0};
	Datum		values[3];
	ChooseAnswer a;
	HeapTuple	row;

	if (desc->natts != 3)
		elog(ERROR, "return type must be vllm.loglikelihood");
	read_answer(reply, &a);
	values[0] = Float8GetDatum(a.c[0].logprob);
	values[1] = Int32GetDatum(a.c[0].n);
	values[2] = BoolGetDatum(a.c[0].greedy);
	row = heap_form_tuple(desc, values, nulls);
	ReleaseTupleDesc(desc);
	*isnull = false;
	return HeapTupleGetDatum(row);
}

Datum
perplexity_result(const Reply *reply, Oid rettype, bool *isnull)
{
	ChooseAnswer a;

	read_answer(reply, &a);
	*isnull = false;
	return Float8GetDatum(exp(-a.c[0].logprob / a.c[0].n));
}
