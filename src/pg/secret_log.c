#include "postgres.h"

#include "utils/backend_status.h"

#include "pg/secret.h"

void
secret_log_mask_activity(void)
{
	pgstat_report_activity(STATE_RUNNING, "SELECT llm_set_secret(***, ***)");
}
