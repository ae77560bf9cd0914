/*
 * cascade.c
 *	  Option "cascade": another model decides where the first one isn't sure; and fitting of the
 *	  thresholds to a sample.
 *
 * {"to": "big", "threshold": -0.3}: an output whose log-probability is below the threshold is
 * discarded, and the request goes to model "big".  The log-probability of generated text is the mean
 * over its tokens; that of a choice is the best label's among all labels.  {"to": "big", "accept":
 * 0.9, "reject": 0.05} is for llm_filter(): probabilities between the two go to the other model;
 * those above or below are decided by the first one, but never against the function's own threshold.
 *
 * THE FIT.  A threshold is good if at least the target share of the outputs above it agree with the
 * truth (or with the other model).  A sample can't prove that; llm_fit_cascade() returns a threshold
 * that is wrong with a probability of at most delta.  It walks a fixed grid of thresholds, from the
 * surest outputs down.  At each one it tests the hypothesis that the share is lower than the target,
 * by the exact binomial tail; it stops at the first threshold where the hypothesis isn't rejected.
 * As the tests have a fixed order and stop that way, their number needs no correction.  Thresholds
 * with few rows above them are skipped (rows_to_begin()); that depends on how sure outputs are, not
 * on whether they are right.  Rows have different probabilities of being right, but in the relevant
 * range the tail of a sum of such rows is at most the binomial one (Hoeffding 1956).
 * llm_fit_filter() makes two fits, at delta/2 each: for the share of right rows among those accepted
 * (precision), and for the share of the right rows that is not rejected (recall).
 *
 * Tests: tests/sql/39_cascade.sql.
 */
#include "postgres.h"

#include <math.h>

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "pg/call/cascade.h"
#include "pg/catalog/cascade_option.h"
#include "pg/call/loglikelihood.h"
#include "pg/util/encoding.h"
#include "pg/client/reply.h"
#include "pg/call/fallback.h"
#include "pg/vllm_pg.h"

/* thresholds that are tested: probabilities of i / GRID */
#define GRID	200

/* ---- requests and results ---- */

/* Read the rule from the message's field, as caller_options.c wrote it. */
static bool
read_rule(const WireField *f, CascadeRule *r)
{
	char		head[128];
	Size		n = Min(f->n, sizeof(head) - 1);
	int			used = 0;

	memcpy(head, f->s, n);
	head[n] = '\0';
	if (sscanf(head, "%lf %lf %lf%n", &r->threshold, &r->accept, &r->reject, &used) != 3 ||
		(Size) used + 1 >= f->n)
		return false;
	r->to = f->s + used + 1;
	r->to_len = f->n - used - 1;
	return true;
}

/*
 * Find the rule in a message; return false if there is none, or if no other model can serve the
 * message.  *plain: the message asks for a single, complete output and doesn't mention
 * log-probabilities.
 */
static bool
rule_of(const char *body, Size len, CascadeRule *r, bool *plain)
{
	WireIn		in = {body, body + len};
	WireField	f;
	bool		found = false;
	bool		bound = false;

	*plain = true;
	while (wire_next(&in, &f) > 0)
	{
		bound = bound || wire_tag_of_vocabulary(f.tag);
		switch (f.tag)
		{
			case WTAG_CASCADE:
				found = read_rule(&f, r);
				break;
			case WTAG_LOGPROBS:
			case WTAG_BEAM_WIDTH:
			case WTAG_WANT_ANSWERS:
			case WTAG_STREAM:
				*plain = false;
				break;
			case WTAG_N:
				*plain = *plain && f.i == 1;
				break;
		}
	}
	return found && !bound;
}

void
cascade_want_logprobs(StringInfo body)
{
	WireOut		out = vclient_out(body);
	CascadeRule r;
	bool		plain;

	if (rule_of(body->data, body->len, &r, &plain) && plain && !isnan(r.threshold))
		wire_put_int(&out, WTAG_LOGPROBS, 0);
}

/*
 * Return the mean over the tokens in the reply, which may lack those of reasoning.  Return 0 (as sure
 * as possible) if there are several outputs or no log-probabilities.
 */
static double
mean_logprob(const CallFrame *f)
{
	WireIn		in = {f->data, f->data + f->len};
	WireField	x;
	double		sum = 0;
	int64		tokens = 0;
	int			answers = 0;

	while (wire_next(&in, &x) > 0)
	{
		answers += x.tag == WTAG_INDEX;
		if (x.tag == WTAG_CUM_LOGPROB)
			sum = x.num;
		/* the prompt's counts come before the first output */
		if (x.tag == WTAG_LP_COUNTS && answers > 0)
			tokens = x.n;
	}
	return answers > 1 || tokens < 1 ? 0 : sum / tokens;
}

/*
 * With accept = 1 or reject = 0 no row is sure enough, although probabilities may be rounded to 1 or
 * 0.
 */
static bool
is_accepted(double prob, double accept)
{
	return accept < 1 && prob >= accept;
}

static bool
is_rejected(double prob, double reject)
{
	return reject > 0 && prob <= reject;
}

/* Return true for a choice that isn't sure. */
static bool
is_close(const CascadeRule *r, const char *body, Size len, const CallFrame *f)
{
	ChooseProbs p;
	Reply		reply;

	reply_read(&reply, f);
	reply.request = body;
	reply.request_len = len;
	if (!choose_probs(&reply, &p))
		return false;
	if (!isnan(p.threshold) && !isnan(r->accept))
		return !(p.first >= p.threshold && is_accepted(p.first, r->accept)) &&
			!(p.first <= p.threshold && is_rejected(p.first, r->reject));
	return log(p.best) < r->threshold;
}

bool
cascade_unsure(WireKind kind, const char *body, Size len, const CallFrame *f, char *to)
{
	CascadeRule r;
	MemoryContext tmp;
	MemoryContext old;
	bool		plain;
	bool		unsure;

	if ((kind != WK_GENERATE && kind != WK_LOGPROBS) || !rule_of(body, len, &r, &plain))
		return false;
	tmp = AllocSetContextCreate(CurrentMemoryContext, "LLM cascade", ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(tmp);
	unsure = kind == WK_GENERATE ? mean_logprob(f) < r.threshold : is_close(&r, body, len, f);
	if (unsure)
		strlcpy(to, name_from_wire(r.to, r.to_len), NAMEDATALEN);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(tmp);
	return unsure;
}

/* ---- the fit ---- */

/* P(exactly k of n), each with probability p. */
static double
binomial_term(int n, int k, double p)
{
	return exp(lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0) + k * log(p) + (n - k) * log1p(-p));
}

/*
 * P(at least k of n), each with probability p.  Sums terms from k away from the mean, where they
 * decrease.  If the first term underflows, so does the sum: the tail is 0 if it was summed itself, 1
 * if its complement was.
 */
static double
binomial_tail(int n, int k, double p)
{
	double		sum = 0;
	double		term;

	if (k <= 0)
		return 1;
	if (k > n * p)
	{
		term = binomial_term(n, k, p);
		for (int i = k; i <= n && term > sum * 1e-17; i++)
		{
			sum += term;
			term *= (double) (n - i) / (i + 1) * p / (1 - p);
		}
		return Min(sum, 1);
	}
	term = binomial_term(n, k - 1, p);
	for (int i = k - 1; i >= 0 && term > sum * 1e-17; i--)
	{
		sum += term;
		term *= (double) i / (n - i + 1) * (1 - p) / p;
	}
	return Max(1 - sum, 0);
}

typedef struct FitRow
{
	double		x;				/* the model's confidence, a probability */
	bool		right;
} FitRow;

static int
compare_rows(const void *a, const void *b)
{
	double		x = ((const FitRow *) a)->x;
	double		y = ((const FitRow *) b)->x;

	return x < y ? 1 : x > y ? -1 : 0;
}

/*
 * Return the number of rows that the first test needs.  It is large enough that the test passes with
 * half of the wrong rows that the target allows; a walk that began with fewer rows would often stop
 * at a row that is wrong by chance.  For a smaller sample, it is the least number that can pass if
 * all rows are right.
 */
static int
rows_to_begin(int n, double target, double delta)
{
	double		least = ceil(log(delta) / log(target));
	int			m = least > n ? n + 1 : (int) least;
	int			enough = m;

	while (enough <= n && binomial_tail(enough, (int) ceil(enough * (1 + target) / 2), target) > delta)
		enough += Max(enough / 64, 1);
	return enough <= n / 2 ? enough : m;
}

/*
 * Return the lowest point of the grid such that, except with probability delta, at least the share
 * `target` of the rows at or above it is right; -1: none.  Sorts the rows.
 */
static double
fit(FitRow *rows, int n, double target, double delta)
{
	int			from = rows_to_begin(n, target, delta);
	double		best = -1;
	int			at = 0;
	int			right = 0;

	qsort(rows, n, sizeof(FitRow), compare_rows);
	for (int g = GRID; g >= 0; g--)
	{
		double		t = (double) g / GRID;

		for (; at < n && rows[at].x >= t; at++)
			right += rows[at].right;
		if (at < from)
			continue;
		if (binomial_tail(at, right, target) > delta)
			break;
		best = t;
	}
	return best;
}

static void
check_share(const char *name, double v)
{
	if (!(v > 0 && v < 1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be above 0 and below 1, got %g", name, v)));
}

/* Make rows of two arrays of equal length.  is_log: the first one has log-probabilities. */
static FitRow *
read_rows(ArrayType *how, ArrayType *right, bool is_log, int *n)
{
	Datum	   *x;
	Datum	   *y;
	int			m;
	FitRow	   *rows;

	if (ARR_NDIM(how) > 1 || ARR_NDIM(right) > 1 || array_contains_nulls(how) || array_contains_nulls(right))
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("the sample must be two one-dimensional arrays without nulls")));
	deconstruct_array(how, FLOAT8OID, 8, FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &x, NULL, n);
	deconstruct_array(right, BOOLOID, 1, true, TYPALIGN_CHAR, &y, NULL, &m);
	if (*n != m)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("the sample's arrays have %d and %d elements", *n, m)));
	rows = palloc(sizeof(FitRow) * Max(m, 1));
	for (int i = 0; i < m; i++)
	{
		double		v = DatumGetFloat8(x[i]);

		if (isnan(v) || (is_log ? v > 0 : v < 0 || v > 1))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg(is_log ? "%g is not a log-probability" : "%g is not a probability", v)));
		rows[i] = (FitRow)
		{
			.x = is_log ? exp(v) : v,.right = DatumGetBool(y[i])
		};
	}
	return rows;
}

static double
share_arg(FunctionCallInfo fcinfo, int arg, const char *name)
{
	double		v = PG_ARGISNULL(arg) ? NAN : PG_GETARG_FLOAT8(arg);

	check_share(name, v);
	return v;
}

static void
need_sample(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("the sample must not be null"),
				 errhint("array_agg() over no rows returns null.")));
}

PG_FUNCTION_INFO_V1(llm_fit_cascade);
PG_FUNCTION_INFO_V1(llm_fit_filter);

/*
 * llm_fit_cascade(logprob float8[], agrees bool[], accuracy float8, delta float8) -> log-probability,
 * NULL if no threshold will do
 */
Datum
llm_fit_cascade(PG_FUNCTION_ARGS)
{
	double		accuracy = share_arg(fcinfo, 2, "accuracy");
	double		delta = share_arg(fcinfo, 3, "delta");
	FitRow	   *rows;
	double		t;
	int			n;

	need_sample(fcinfo);
	rows = read_rows(PG_GETARG_ARRAYTYPE_P(0), PG_GETARG_ARRAYTYPE_P(1), true, &n);
	t = fit(rows, n, accuracy, delta);
	if (t < 0)
		PG_RETURN_NULL();
	/* the option needs a number: one that no log-probability is below */
	PG_RETURN_FLOAT8(t > 0 ? log(t) : -1e6);
}

/*
 * Return the highest grid point at or below which right rows may be rejected.  Recall is the share of
 * the right rows that isn't rejected.
 */
static double
fit_reject(const FitRow *rows, int n, double recall, double delta)
{
	FitRow	   *mine = palloc(sizeof(FitRow) * Max(n, 1));
	double		best = -1;
	int			m = 0;
	int			lost = 0;

	for (int i = 0; i < n; i++)
		if (rows[i].right)
			mine[m++] = rows[i];
	qsort(mine, m, sizeof(FitRow), compare_rows);
	if (binomial_tail(m, m, recall) > delta)
		return -1;				/* too few right rows to prove the recall even if none is rejected */
	for (int g = 0; g <= GRID; g++)
	{
		double		t = (double) g / GRID;

		while (lost < m && mine[m - 1 - lost].x <= t)
			lost++;
		if (binomial_tail(m, m - lost, recall) > delta)
			break;
		best = t;
	}
	return best;
}

/*
 * llm_fit_filter(prob float8[], truth bool[], precision float8, recall float8, delta float8, OUT accept, OUT
 * reject, OUT asked)
 */
Datum
llm_fit_filter(PG_FUNCTION_ARGS)
{
	double		precision = share_arg(fcinfo, 2, "precision");
	double		recall = share_arg(fcinfo, 3, "recall");
	double		delta = share_arg(fcinfo, 4, "delta");
	TupleDesc	desc;
	FitRow	   *rows;
	double		accept;
	double		reject;
	int			n;
	int			called = 0;
	Datum		values[3];
	bool		nulls[3] = {0};

	need_sample(fcinfo);
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	rows = read_rows(PG_GETARG_ARRAYTYPE_P(0), PG_GETARG_ARRAYTYPE_P(1), false, &n);
	reject = fit_reject(rows, n, recall, delta / 2);
	accept = fit(rows, n, precision, delta / 2);
	/* -1: no row is accepted, or none rejected */
	accept = accept < 0 ? 1 : accept;
	reject = Min(reject < 0 ? 0 : reject, accept);
	for (int i = 0; i < n; i++)
		called += !is_accepted(rows[i].x, accept) && !is_rejected(rows[i].x, reject);
	values[0] = Float8GetDatum(accept);
	values[1] = Float8GetDatum(reject);
	values[2] = Float8GetDatum(n > 0 ? (double) called / n : 0);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls)));
}
