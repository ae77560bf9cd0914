/*
 * remote_settings.h
 *	  What the remote program is told: settings by name.
 */
#ifndef VLLM_REMOTE_REMOTE_SETTINGS_H
#define VLLM_REMOTE_REMOTE_SETTINGS_H

#include "base/err.h"
#include "remote/dispatcher.h"

/* Nothing is allowed yet. */
void		rsettings_init(RSettings *s);
void		rsettings_free(RSettings *s);
/* "name=value".  False: all is as it was. */
bool		rsettings_assign(RSettings *s, const char *assign, Err *e);

#endif
