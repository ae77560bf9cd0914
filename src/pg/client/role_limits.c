/*
 * role_limits.c
 *	  The role whose share and limits a request counts for, and their fields in its message.
 *
 * That is the role that has logged in.  Its settings have the values that ALTER ROLE ... SET gave
 * them at login; neither SET ROLE nor a function of another role changes them.  Two kinds of sessions
 * send requests for other roles: a job worker, for the jobs' owners, in the background; and the HTTP
 * server, which becomes the role of each API key.  For these the settings of that role are looked up
 * as its login would.  A worker runs jobs of several owners, and no owner may make the others wait;
 * so only those limits apply that don't make requests wait.
 *
 * Tested by tests/t/097_limits.pl.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_db_role_setting.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/rel.h"

#include "pg/client/client.h"
#include "pg/vllm_pg.h"

typedef struct RoleLimits
{
	int			weight;
	int			max_requests;
	int			tokens_per_minute;
	int			max_tokens;
	int			wait_ms;
	double		max_cost;
	CostWindow	cost_window;
} RoleLimits;

static bool background;

typedef struct OwnerCost
{
	Oid			role;
	double		most;
	CostWindow	window;
} OwnerCost;

static HTAB *owner_costs = NULL;

void
vclient_set_background(void)
{
	background = true;
}

/* Return true if the HTTP server sends the request, as the role of an API key. */
static bool
is_http_server(void)
{
	char	   *name;
	bool		is_http;

	if (GetUserId() == GetSessionUserId())
		return false;
	name = GetUserNameFromId(GetSessionUserId(), true);
	is_http = name != NULL && vllm_http_role != NULL && strcmp(name, vllm_http_role) == 0;
	if (name != NULL)
		pfree(name);
	return is_http;
}

/* Apply one "name=value" of ALTER ROLE ... SET.  Other settings and invalid values are ignored. */
static void
take_setting(RoleLimits *l, char *setting)
{
	const struct
	{
		const char *name;
		int		   *to;
		int			least;
		int			flags;
	}			known[] = {
		{"vllm.role_weight", &l->weight, 1, 0},
		{"vllm.role_max_requests", &l->max_requests, 0, 0},
		{"vllm.role_tokens_per_minute", &l->tokens_per_minute, 0, 0},
		{"vllm.role_max_tokens", &l->max_tokens, 0, 0},
		{"vllm.role_limit_timeout", &l->wait_ms, -1, GUC_UNIT_MS},
	};
	char	   *value = strchr(setting, '=');
	int			n;
	double		cost;

	if (value == NULL)
		return;
	*value++ = '\0';
	if (pg_strcasecmp(setting, "vllm.role_max_cost") == 0 && parse_real(value, &cost, 0, NULL) && cost >= 0)
		l->max_cost = cost;
	if (pg_strcasecmp(setting, "vllm.role_cost_window") == 0)
		l->cost_window = cost_window(value);
	for (int i = 0; i < (int) lengthof(known); i++)
		if (pg_strcasecmp(setting, known[i].name) == 0 && parse_int(value, &n, known[i].flags, NULL) &&
			n >= known[i].least)
			*known[i].to = n;
}

/* Apply the settings of a role, for all databases or for one. */
static void
take_settings(RoleLimits *l, Relation rel, Oid database, Oid role)
{
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	t;

	ScanKeyInit(&key[0], Anum_pg_db_role_setting_setdatabase, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(database));
	ScanKeyInit(&key[1], Anum_pg_db_role_setting_setrole, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(role));
	scan = systable_beginscan(rel, DbRoleSettingDatidRolidIndexId, true, NULL, 2, key);
	while (HeapTupleIsValid(t = systable_getnext(scan)))
	{
		bool		null;
		Datum		d = heap_getattr(t, Anum_pg_db_role_setting_setconfig, RelationGetDescr(rel), &null);
		Datum	   *settings;
		int			n = 0;

		if (!null)
			deconstruct_array(DatumGetArrayTypeP(d), TEXTOID, -1, false, TYPALIGN_INT, &settings, NULL, &n);
		for (int i = 0; i < n; i++)
			take_setting(l, TextDatumGetCString(settings[i]));
	}
	systable_endscan(scan);
}

static void
limits_of(RoleLimits *l, Oid role)
{
	Relation	rel = table_open(DbRoleSettingRelationId, AccessShareLock);

	take_settings(l, rel, InvalidOid, role);
	take_settings(l, rel, MyDatabaseId, role);
	table_close(rel, AccessShareLock);
}

/* Return the role whose account is charged, and its limits. */
static Oid
account_role(RoleLimits *l)
{
	*l = (RoleLimits) {vllm_role_weight, vllm_role_max_requests, vllm_role_tokens_per_minute,
					   vllm_role_max_tokens, vllm_role_limit_timeout,
	vllm_role_max_cost, cost_window(vllm_role_cost_window)};
	if (!background && !is_http_server())
		return GetSessionUserId();
	limits_of(l, GetUserId());
	if (background)
		l->max_requests = l->tokens_per_minute = 0;
	return GetUserId();
}

bool
vclient_is_background(void)
{
	return background;
}

/*
 * Remember an owner's budget when a request of his jobs is made, as requests are sent outside of
 * transactions.
 */
static void
remember_cost(Oid role, const RoleLimits *l)
{
	HASHCTL		ctl = {.keysize = sizeof(Oid),.entrysize = sizeof(OwnerCost)};
	OwnerCost  *o;

	if (owner_costs == NULL)
		owner_costs = hash_create("LLM budgets of owners", 16, &ctl, HASH_ELEM | HASH_BLOBS);
	o = hash_search(owner_costs, &role, HASH_ENTER, NULL);
	o->most = l->max_cost;
	o->window = l->cost_window;
	if (l->max_cost > 0)
		cost_make_room(role);
}

Oid
vclient_cost_limits(Oid role, double *most, CostWindow *window)
{
	OwnerCost  *o = background && owner_costs != NULL ? hash_search(owner_costs, &role, HASH_FIND, NULL) :
		NULL;
	RoleLimits	l = {.max_cost = o != NULL ? o->most : 0,.cost_window = o != NULL ? o->window : COST_MONTH};

	if (!background)
		role = account_role(&l);
	*most = l.max_cost;
	*window = l.cost_window;
	return role;
}

int
vclient_role_max_tokens(void)
{
	RoleLimits	l;

	(void) account_role(&l);
	return l.max_tokens;
}

Oid
vclient_login_role(void)
{
	if (background)
		return InvalidOid;
	return is_http_server() ? GetUserId() : GetSessionUserId();
}

Oid
vclient_limited_role(void)
{
	RoleLimits	l = {.max_requests = vllm_role_max_requests,
					 .tokens_per_minute = vllm_role_tokens_per_minute};
	Oid			role = GetSessionUserId();

	/* limits don't make a job worker's requests wait */
	if (background)
		return InvalidOid;
	if (is_http_server())
		role = account_role(&l);
	return l.max_requests > 0 || l.tokens_per_minute > 0 ? role : InvalidOid;
}

void
vclient_put_account(WireOut *o)
{
	RoleLimits	l;
	Oid			role = account_role(&l);

	wire_put_int(o, WTAG_LOGIN, role);
	if (background)
		remember_cost(role, &l);
	if (vllm_background || background)
		wire_put_int(o, WTAG_BACKGROUND, 1);
	if (l.weight != 100)
		wire_put_int(o, WTAG_ROLE_WEIGHT, l.weight);
	if (l.max_requests > 0)
		wire_put_int(o, WTAG_ROLE_MAX_REQUESTS, l.max_requests);
	if (l.tokens_per_minute > 0)
		wire_put_int(o, WTAG_ROLE_TOKENS_PER_MINUTE, l.tokens_per_minute);
	if (l.max_tokens > 0)
		wire_put_int(o, WTAG_ROLE_MAX_TOKENS, l.max_tokens);
	if (l.max_requests > 0 || l.tokens_per_minute > 0)
		wire_put_int(o, WTAG_ROLE_LIMIT_WAIT, l.wait_ms);
}
