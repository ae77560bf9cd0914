/*
 * remote_settings.h
 *	  The settings of the remote program, assigned by name.
 */
#ifndef VLLM_REMOTE_REMOTE_SETTINGS_H
#define VLLM_REMOTE_REMOTE_SETTINGS_H

#include "base/err.h"
#include "remote/dispatcher.h"

/* Set the defaults; no host is allowed yet. */
void		rsettings_init(RSettings *s);
void		rsettings_free(RSettings *s);
/* Assign "name=value".  Returns false and changes nothing on an error. */
bool		rsettings_assign(RSettings *s, const char *assign, Err *e);

#endif
