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
 * Facts about a sub-plan.  They stay true when the sub-plan itself is rewritten, which happens later:
 * a sub-plan with calls is not safe before its rewrite either.
 */
typedef struct SubplanFacts
{
	SubplanFact safe;
	SubplanFact steady;			/* not volatile */
} SubplanFacts;

/* State of the rewrite of one plan. */
typedef struct Rewrite
{
	PlannedStmt *stmt;
	int			next_id;		/* plan_node_id of the next node */
	BatchAhead *subplan_ahead;	/* by plan_id - 1: how far its readers read ahead */
	SubplanFacts *subplan_facts;	/* by plan_id - 1 */
	bool		changed;
} Rewrite;

/* What is known about the rows that a plan's parent will ask for. */
typedef struct Demand
{
	BatchAhead	ahead;
	const Limit *limit;			/* each row of the plan is one row of this Limit; else NULL */
	BatchAhead	limit_ahead;	/* how far the Limit's parent reads */
} Demand;

/*
 * State of cutting expressions.  Meanwhile Var(OUTER_VAR, k) in a result is column k of the node's
 * child, and Var(INDEX_VAR, j) is the value of call j.  split_finish() and split_finish_above()
 * renumber them when the number of the child's columns is known.
 */
typedef struct Split
{
	Rewrite    *rw;
	List	   *calls;			/* BatchCall * */
	List	   *guards;			/* guards of the place that is being read */
	int			stage;
	int64		guard_nodes;	/* nodes of all guards so far: of each guard looked at, and of the
								 * calls' copies */
	int64		here_nodes;		/* nodes of `guards` */
	int			no_hoist;		/* > 0: inside an expression that may not evaluate its operands */

	/*
	 * Collect what the child has to supply: Vars, Aggrefs, ... become columns in leaves.  Without
	 * this, the expressions already refer to the child.
	 */
	bool		gather_leaves;
	BatchMatch	match;			/* for the node that gets the calls */
	bool		passes_through;	/* the calls are in a plan node above the child */
	List	   *leaves;			/* expressions over the old node's input; they become the child's columns */

	/* for a ValuesScan: each column's expression after the split, or NULL */
	Index		subst_relid;
	List	   *subst;

	/* for a NestLoop: Params of its inner side refer to columns of its outer side */
	List	   *nest_params;
	bool		foreign_param;	/* found a PARAM_EXEC that isn't one of them */
} Split;

/* ---- split.c ---- */
bool		batch_has_call(Node *expr);
bool		batch_is_volatile(Rewrite *rw, Node *expr);
/* Like batch_is_volatile(), but engine functions, which are declared volatile, don't count. */
bool		batch_is_otherwise_volatile(Rewrite *rw, Node *expr);
/* Return true if the expression has a node that only a ModifyTable can evaluate. */
bool		batch_is_written_only(Node *expr);
/* Return true if the expression has a hashed sub-select that depends on the outer row. */
bool		batch_has_param_hash(Rewrite *rw, Node *expr);
bool		split_is_leaf(Node *node);
bool		split_is_good_guard(Rewrite *rw, Node *expr);
Node	   *split_expr(Split *s, Node *expr);
/* Split the operands of expr, which itself stays in place. */
Node	   *split_operands(Split *s, Node *expr);
/* Split expr under one more guard. */
Node	   *split_guarded(Split *s, Node *expr, Node *guard);
Node	   *split_truth(Node *expr, int booltesttype);
/* Replace sub-selects that are mere expressions with calls by those expressions. */
Node	   *split_pull_scalars(Rewrite *rw, Node *expr);
/* Number expr for the node itself: a scan tuple of n_child columns and the calls. */
Node	   *split_finish(Node *expr, int n_child);
/* Number expr for a parent that reads child columns and call values from the node's output. */
Node	   *split_finish_above(Node *expr, int n_child);

/* ---- safe.c ---- */
/* Return true if the plan, which is below a batch node, can't raise an error. */
bool		batch_plan_is_safe(Rewrite *rw, Plan *plan);

/* ---- insert.c ---- */
/* A plan node's quals, divided into those that stay and those that move above it, both in order. */
typedef struct QualCut
{
	List	   *joinqual,
			   *qual,
			   *moved;
} QualCut;

void		cut_plan_quals(Plan *plan, QualCut *cut);
void		reduce_plan(Plan *plan, const QualCut *cut, List *columns);
/* Make a node over child for the split's calls; tlist and qual have been split. */
Plan	   *insert_node(Rewrite *rw, Split *s, Plan *child, List *tlist, List *qual, const Demand *demand);
/* Make a node whose output is the child's columns and then the calls' values. */
Plan	   *insert_pass_through(Rewrite *rw, Split *s, Plan *child, const Demand *demand);
Plan	   *insert_above(Rewrite *rw, Plan *plan, const Demand *demand);
void		insert_below(Rewrite *rw, Plan *plan, const Demand *demand);

/*
 * Insert a node above an outer, semi or anti join with calls in its condition; return NULL if that is
 * not possible.
 */
Plan	   *insert_match(Rewrite *rw, Join *join, const Demand *demand);
void		insert_for_hash(Rewrite *rw, HashJoin *join, const Demand *outer);

/* ---- template.c ---- */
/* The expressions of many rows (or plans), merged into one over columns that hold the differences. */
typedef struct Template
{
	int			n_rows;
	List	   *columns;		/* each is a List of n_rows expressions */
} Template;

Node	   *template_add(Template *t, List *exprs);
Node	   *template_add_whole(Template *t, List *exprs);
Node	   *template_finish(Node *expr, int varno, int first_column);

/* ---- values.c ---- */
Plan	   *insert_above_values(Rewrite *rw, ValuesScan *scan, const Demand *demand);

/* ---- append.c ---- */
Plan	   *insert_above_append(Rewrite *rw, Append *append, const Demand *demand);
/* Return NULL if no column of RETURNING can be batched. */
Plan	   *insert_above_returning(Rewrite *rw, ModifyTable *modify);

/* ---- lateral.c ---- */
bool		lateral_is_one_to_one(NestLoop *join);
void		insert_lateral(Rewrite *rw, NestLoop *join, const Demand *demand);

/* ---- note.c ---- */
/* Make a node above the plan that passes its rows on and appends a column with a unique row number. */
Plan	   *batch_number_rows(Plan *child, int plan_node_id);
bool		batch_plan_numbers(const Plan *plan);

/* ---- rewrite.c ---- */
int			max_plan_node_id(PlannedStmt *stmt);

/* ---- walk.c ---- */
/* Return true if the plan computes a target list of its own. */
bool		plan_projects(Plan *plan);
/* Return true if the plan runs again for each row of another plan. */
bool		plan_depends_on_outer(PlannedStmt *stmt, Plan *plan);
typedef bool (*PlanVisitor) (Plan *plan, void *context);
typedef bool (*ExprVisitor) (Node *expr, void *context);

/* Visit the plans directly below; return true as soon as the visitor does. */
bool		walk_children(Plan *plan, PlanVisitor visit, void *context);
typedef Plan *(*PlanMutator) (Plan *plan, void *context);
/* Replace each child by the mutator's result, except children of plan nodes that rely on their kinds. */
void		replace_children(Plan *plan, PlanMutator mutate, void *context);
/* Visit the expressions (and lists of them) of this plan node. */
bool		walk_exprs(Plan *plan, ExprVisitor visit, void *context);

#endif
