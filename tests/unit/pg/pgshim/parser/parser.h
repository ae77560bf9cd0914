/*
 * parser.h
 *	  The setting of PostgreSQL's parser that a scanner of statements needs.
 */
#ifndef VLLM_TESTS_UNIT_PG_PGSHIM_PARSER_PARSER_H
#define VLLM_TESTS_UNIT_PG_PGSHIM_PARSER_PARSER_H

extern bool standard_conforming_strings;

#endif
