/*
 * split.h
 *	  What the planner's half of the batch node shares.
 */
#ifndef VLLM_PG_BATCH_SPLIT_H
#define VLLM_PG_BATCH_SPLIT_H

#include "postgres.h"

#include "nodes/plannodes.h"

#include "pg/batch/batch.h"

typedef enum SubplanFact
{
	FACT_UNKNOWN,
	FACT_YES,
	FACT_NO
} SubplanFact;

/*
 * What was found out about a sub-plan.  It stays true when the sub-plan itself is
 * rewritten, which is later: one with calls is not safe before either.
 */
typedef struct SubplanFacts
{
	SubplanFact safe;
	SubplanFact steady;			/* not volatile */
} SubplanFacts;

/* A plan being rewritten. */
typedef struct Rewrite
{
	PlannedStmt *stmt;
	int			next_id;		/* plan_node_id of the next node */
	BatchAhead *subplan_ahead;	/* by plan_id - 1: how far its readers read */
	SubplanFacts *subplan_facts;	/* by plan_id - 1 */
	bool		changed;
} Rewrite;

/* What is known of the rows that a plan's parent will ask for. */
typedef struct Demand
{
	BatchAhead	ahead;
	const Limit *limit;			/* each row here is one of this Limit's, else NULL */
	BatchAhead	limit_ahead;	/* how far that Limit is read */
} Demand;

/*
 * Cutting expressions.  While it goes on, Var(OUTER_VAR, k) in a result is column k
 * of the node's child and Var(INDEX_VAR, j) the value of call j; split_finish_* makes
 * the final numbering when the number of the child's columns is known.
 */
typedef struct Split
{
	Rewrite    *rw;
	List	   *calls;			/* BatchCall * */
	List	   *guards;			/* of the place that is being read */
	int			stage;
	int64		guard_nodes;	/* of guards, so far: each that was looked at, and calls' copies */
	int64		here_nodes;		/* of `guards` */
	int			no_hoist;		/* > 0: inside something that may not evaluate it */

	/*
	 * Collect what the child has to supply: Vars, Aggrefs, ... become columns in
	 * leaves.  Without it the expressions already refer to the child.
	 */
	bool		gather_leaves;
	BatchMatch	match;			/* of the node that will have the calls */
	bool		passes_through;	/* the calls stand in a plan node above the child */
	List	   *leaves;			/* expressions over the old node's input */

	/* of a ValuesScan: what already split expression (or NULL) a column is */
	Index		subst_relid;
	List	   *subst;

	/* of a NestLoop: Params of its inner side stand for columns of its outer side */
	List	   *nest_params;
	bool		foreign_param;	/* met a PARAM_EXEC that isn't one of them */
} Split;

/* ---- split.c ---- */
bool		batch_has_call(Node *expr);
bool		batch_is_volatile(Rewrite *rw, Node *expr);
/* The same, but for calls of ours, which are declared so. */
bool		batch_is_otherwise_volatile(Rewrite *rw, Node *expr);
/* Is there anything in it that a ModifyTable alone can evaluate? */
bool		batch_is_written_only(Node *expr);
/* Does it have a hashed sub-select that depends on the outer row? */
bool		batch_has_param_hash(Rewrite *rw, Node *expr);
bool		split_is_leaf(Node *node);
bool		split_is_good_guard(Rewrite *rw, Node *expr);
Node	   *split_expr(Split *s, Node *expr);
/* the operands of expr, which itself stays as it is */
Node	   *split_operands(Split *s, Node *expr);
/* expr under one more guard */
Node	   *split_guarded(Split *s, Node *expr, Node *guard);
Node	   *split_truth(Node *expr, int booltesttype);
/* expr with sub-selects that are mere expressions with calls written out */
Node	   *split_pull_scalars(Rewrite *rw, Node *expr);
/* for the node's own expressions: a scan tuple of n_child columns and the calls */
Node	   *split_finish(Node *expr, int n_child);
/* for a parent that reads child columns and call values from the node's output */
Node	   *split_finish_above(Node *expr, int n_child);

/* ---- safe.c ---- */
/* Can't the plan, which is below a node, raise an error? */
bool		batch_plan_is_safe(Rewrite *rw, Plan *plan);

/* ---- insert.c ---- */
/* What of a plan node's quals stays, and what moves above it, in order. */
typedef struct QualCut
{
	List	   *joinqual,
			   *qual,
			   *moved;
} QualCut;

void		cut_plan_quals(Plan *plan, QualCut *cut);
void		reduce_plan(Plan *plan, const QualCut *cut, List *columns);
/* A node of the split's calls over child; tlist and qual as split. */
Plan	   *insert_node(Rewrite *rw, Split *s, Plan *child, List *tlist, List *qual, const Demand *demand);
/* The same, which passes the child's columns and then the calls' values. */
Plan	   *insert_pass_through(Rewrite *rw, Split *s, Plan *child, const Demand *demand);
Plan	   *insert_above(Rewrite *rw, Plan *plan, const Demand *demand);
void		insert_below(Rewrite *rw, Plan *plan, const Demand *demand);

/* Above an outer, semi or anti join with calls in its condition; NULL: not possible. */
Plan	   *insert_match(Rewrite *rw, Join *join, const Demand *demand);
void		insert_for_hash(Rewrite *rw, HashJoin *join, const Demand *outer);

/* ---- template.c ---- */
/* Many rows' (or plans') expressions as one, over columns that hold what differs. */
typedef struct Template
{
	int			n_rows;
	List	   *columns;		/* a List of n_rows expressions each */
} Template;

Node	   *template_add(Template *t, List *exprs);
Node	   *template_add_whole(Template *t, List *exprs);
Node	   *template_finish(Node *expr, int varno, int first_column);

/* ---- values.c ---- */
Plan	   *insert_above_values(Rewrite *rw, ValuesScan *scan, const Demand *demand);

/* ---- append.c ---- */
Plan	   *insert_above_append(Rewrite *rw, Append *append, const Demand *demand);
/* NULL: nothing of RETURNING can be batched. */
Plan	   *insert_above_returning(Rewrite *rw, ModifyTable *modify);

/* ---- lateral.c ---- */
bool		lateral_is_one_to_one(NestLoop *join);
void		insert_lateral(Rewrite *rw, NestLoop *join, const Demand *demand);

/* ---- note.c ---- */
/* A node above the plan that hands its rows on, with a number of their own behind their columns. */
Plan	   *batch_number_rows(Plan *child, int plan_node_id);
bool		batch_plan_numbers(const Plan *plan);

/* ---- rewrite.c ---- */
int			max_plan_node_id(PlannedStmt *stmt);

/* ---- walk.c ---- */
/* Does it compute a target list of its own? */
bool		plan_projects(Plan *plan);
/* Does it run anew for each row of another plan? */
bool		plan_depends_on_outer(PlannedStmt *stmt, Plan *plan);
typedef bool (*PlanVisitor) (Plan *plan, void *context);
typedef bool (*ExprVisitor) (Node *expr, void *context);

/* The plans directly below; true as soon as the visitor says so. */
bool		walk_children(Plan *plan, PlanVisitor visit, void *context);
typedef Plan *(*PlanMutator) (Plan *plan, void *context);
/* The function's plan for each of them, but for those of plan nodes that rely on their kinds. */
void		replace_children(Plan *plan, PlanMutator mutate, void *context);
/* The expressions (and lists of them) of this one plan node. */
bool		walk_exprs(Plan *plan, ExprVisitor visit, void *context);

#endif
