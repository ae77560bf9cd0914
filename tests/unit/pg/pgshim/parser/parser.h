/*
 * parser.h
 *	  The one setting of PostgreSQL's parser that a scanner of statements needs.
 */
#ifndef VLLM_TESTS_PGSHIM_PARSER_H
#define VLLM_TESTS_PGSHIM_PARSER_H

extern bool standard_conforming_strings;

#endif
