/*
 * gram_walk_specs.h
 *	  The specifications from which test_gram_walk draws texts, in addition to the shared schemas.
 *
 * Python's re must read the regular expressions, and lark the grammars, in the same way.
 */
#ifndef VLLM_TESTS_UNIT_GRAMMAR_GRAM_WALK_SPECS_H
#define VLLM_TESTS_UNIT_GRAMMAR_GRAM_WALK_SPECS_H

#include "grammar/grammar.h"

static const struct
{
	GramKind	kind;
	const char *text;
}			walk_specs[] = {
	/* expressions */
	{GRAM_REGEX, "[a-z]{3,8}"},
	{GRAM_REGEX, "\\d{4}-\\d{2}-\\d{2}"},
	{GRAM_REGEX, "(yes|no|maybe)( please)?"},
	{GRAM_REGEX, "[A-Z][a-z]+( [A-Z][a-z]+){0,3}"},
	{GRAM_REGEX, "-?(0|[1-9]\\d*)(\\.\\d+)?([eE][+-]?\\d+)?"},
	{GRAM_REGEX, "[\\w.+-]+@[\\w-]+(\\.[\\w-]+)+"},
	{GRAM_REGEX, "#[0-9a-fA-F]{6}"},
	{GRAM_REGEX, "(?:25[0-5]|2[0-4]\\d|1?\\d?\\d)(?:\\.(?:25[0-5]|2[0-4]\\d|1?\\d?\\d)){3}"},
	{GRAM_REGEX, "(a|b)*abb"},
	{GRAM_REGEX, ".{1,20}"},
	{GRAM_REGEX, "[^\\d\\s]{5}"},
	{GRAM_REGEX, "(\\w+\\s){2,4}\\w+\\."},
	{GRAM_REGEX, "<(b|i|em)>[^<>]{0,40}</(b|i|em)>"},
	{GRAM_REGEX, "([01]\\d|2[0-3]):[0-5]\\d(:[0-5]\\d)?"},
	{GRAM_REGEX, "(ab?c){2,}"},
	{GRAM_REGEX, "\\+?\\d{1,3}[ -]?\\(?\\d{2,4}\\)?([ -]?\\d{2,4}){2}"},
	{GRAM_REGEX, "[\\u4e00-\\u9fff]{1,6}"},
	{GRAM_REGEX, "(\xC3\xA9|e\xCC\x81|\xC3\xA8)+"},
	{GRAM_REGEX, "[\xF0\x9F\x98\x80-\xF0\x9F\x98\xBF]{1,3}"},
	{GRAM_REGEX, "\\s*\\S+\\s*"},
	{GRAM_REGEX, "(?i:select) \\* (?i:from) [a-z_]+;"},
	{GRAM_REGEX, "[[\\]{}()\\\\^$|?*+.-]{1,10}"},
	{GRAM_REGEX, "(x{2,3}y?){2}z{0,2}"},
	{GRAM_REGEX, "\"([^\"\\\\]|\\\\.)*\""},
	{GRAM_REGEX, "((a{1,3}b){1,3}c){1,3}"},
	{GRAM_REGEX, "(|a|ab)(c|bcd)(d*)"},
	{GRAM_REGEX, "\\t[\\x20-\\x7e]{3}\\n"},
	{GRAM_REGEX, "(foo|foobar|barfoo)+"},
	{GRAM_REGEX, "[a-f0-9]{8}-[a-f0-9]{4}-4[a-f0-9]{3}-[89ab][a-f0-9]{3}-[a-f0-9]{12}"},
	{GRAM_REGEX, "(19|20)\\d\\d"},
	{GRAM_REGEX, "M{0,3}(CM|CD|D?C{0,3})(XC|XL|L?X{0,3})(IX|IV|V?I{0,3})"},
	{GRAM_REGEX, "\\$\\d{1,3}(,\\d{3})*(\\.\\d{2})?"},
	{GRAM_REGEX, "([^,\\n]*,){3}[^,\\n]*"},
	{GRAM_REGEX, "a*b*c*"},
	{GRAM_REGEX, "(a|b|c){5,50}"},
	{GRAM_REGEX, "[^\\x00-\\x7f]+"},
	{GRAM_REGEX, "0x[0-9A-F]+|0b[01]+|0o[0-7]+"},
	{GRAM_REGEX, "(\\d+)(,\\d+)*|none"},
	{GRAM_REGEX, "\\w"},
	{GRAM_REGEX, "[a-zA-Z_$][\\w$]*(\\.[a-zA-Z_$][\\w$]*)*\\(\\)"},
	{GRAM_REGEX, "(.\\n)+"},
	/* EBNF */
	{GRAM_GRAMMAR, "root ::= [a-z]+ (\",\" [a-z]+)*"},
	{GRAM_GRAMMAR, "root ::= expr\nexpr ::= term ((\"+\" | \"-\") term)*\nterm ::= factor ((\"*\" | \"/\") "
				   "factor)*\nfactor ::= [0-9]+ | \"(\" expr \")\""},
	{GRAM_GRAMMAR, "root ::= \"(\" root \")\" | \"\""},
	{GRAM_GRAMMAR, "root ::= \"a\" root \"b\" | \"ab\""},
	{GRAM_GRAMMAR, "root ::= ws v ws\nv ::= \"{\" ws (p (ws \",\" ws p)*)? ws \"}\" | \"[\" ws (v (ws \",\" "
				   "ws v)*)? ws \"]\" | s | n\np ::= s ws \":\" ws v\ns ::= \"\\\"\" "
	"[^\"\\\\\\x00-\\x1f]{0,20} \"\\\"\"\nn ::= \"-\"? [0-9]{1,5}\nws ::= \" \"?"},
	{GRAM_GRAMMAR, "root ::= (move \"\\n\"){2,6}\nmove ::= [1-9] \". \" [a-h] [1-8] \" \" [a-h] [1-8]"},
	{GRAM_GRAMMAR, "root ::= list | item\nlist ::= \"- \" item (\"\\n- \" item){0,4}\nitem ::= [^\\n-] "
				   "[^\\n]{0,30}"},
	{GRAM_GRAMMAR, "root ::= left\nleft ::= left \"x\" | \"y\""},
	{GRAM_GRAMMAR, "root ::= a b{2,4} c?\na ::= \"1\" | \"12\"\nb ::= \"2\" | \"22\"\nc ::= \"3\""},
	{GRAM_GRAMMAR, "root ::= \"\xC3\xA9\" | [\xC3\xA0-\xC3\xBF]{2,4} \"\\u4e2d\""},
	{GRAM_GRAMMAR, "root ::= s\ns ::= s s | \"[\" s \"]\" | \"x\""},
	/* Lark */
	{GRAM_GRAMMAR, "start: expr\n?expr: expr (\"+\" | \"-\") term | term\n?term: term (\"*\" | \"/\") factor "
				   "| factor\n?factor: NUMBER | NAME | \"-\" factor | \"(\" expr \")\"\nNAME: "
	"/[a-z_][a-z0-9_]*/\n%import common.NUMBER\n%import common.WS_INLINE\n%ignore WS_INLINE\n"},
	{GRAM_GRAMMAR, "start: \"let\" NAME \"=\" INT \";\"\nNAME: /[A-Z]+/\n%import common.INT\n%ignore \" "
				   "\"\n"},
	{GRAM_GRAMMAR, "start: pair (\"&\" pair)*\npair: KEY \"=\" VALUE?\nKEY: /[a-z]+/\nVALUE: /[a-z0-9%]+/\n"},
	{GRAM_GRAMMAR, "start: item~2..4\nitem: \"<\" /[a-z]{1,5}/ \">\"\n"},
	{GRAM_GRAMMAR, "start: \"select\"i COLS \"from\"i TABLE [\"where\"i COND]\nCOLS: "
				   "/\\*|[a-z]+(,[a-z]+)*/\nTABLE: /[a-z]+/\nCOND: /[a-z]+=[0-9]+/\n%ignore / /\n"},
	{GRAM_GRAMMAR, "start: block\nblock: \"{\" (block | LETTER)* \"}\"\n%import common.LETTER\n"},
	{GRAM_GRAMMAR, "start: ESCAPED_STRING (\",\" ESCAPED_STRING)*\n%import common.ESCAPED_STRING\n"},
	{GRAM_GRAMMAR, "start: (\"a\"..\"f\")+ SIGNED_INT\n%import common.SIGNED_INT\n"},
	{GRAM_GRAMMAR, "start: [\"x\"] \"y\"+ (\"z\" | \"w\"~2)\n"},
	{GRAM_GRAMMAR, "start: \"if\" cond \"then\" start (\"else\" start)? | \"go\"\ncond: /[a-z]/\n%ignore \" "
				   "\"\n"},
	/* structural tags */
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"triggered_tags\", \"triggers\": [\"<f=\"], \"tags\": "
						  "[{\"begin\": \"<f=a>\", \"content\": {\"type\": \"json_schema\", \"json_schema\": "
	"{\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"integer\"}}, \"required\": [\"x\"]}}, "
	"\"end\": \"</f>\"}], \"at_least_one\": true}}"},
	{GRAM_STRUCTURAL_TAG, "{\"triggers\": [\"<tool\"], \"structures\": [{\"begin\": \"<tool=add>\", "
						  "\"schema\": {\"type\": \"array\", \"items\": {\"type\": \"integer\"}, "
						  "\"maxItems\": 3}, \"end\": \"</tool>\"}]}"},
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"sequence\", \"elements\": [{\"type\": \"tag\", "
						  "\"begin\": \"<think>\", \"content\": {\"type\": \"any_text\"}, \"end\": "
						  "\"</think>\"}, {\"type\": \"regex\", \"pattern\": \"[0-9]{1,4}\"}]}}"},
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"tags_with_separator\", \"separator\": \", \", "
						  "\"at_least_one\": true, \"tags\": [{\"begin\": \"(\", \"content\": {\"type\": "
						  "\"regex\", \"pattern\": \"[a-z]{1,4}\"}, \"end\": \")\"}]}}"},
	{GRAM_STRUCTURAL_TAG, "{\"format\": {\"type\": \"or\", \"elements\": [{\"type\": \"const_string\", "
						  "\"value\": \"none\"}, {\"type\": \"grammar\", \"grammar\": \"root ::= [a-c] "
						  "root?\"}]}}"},
	/* schemas for features that the shared ones rarely use */
	{GRAM_JSON_SCHEMA, "{}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"object\"}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\",\"minimum\":3,"
					   "\"maximum\":17},\"b\":{\"type\":\"string\",\"pattern\":\"^[a-f]{2,4}$\"}},"
					   "\"required\":[\"b\"]}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"object\",\"minProperties\":2,\"maxProperties\":3,"
					   "\"additionalProperties\":{\"type\":\"boolean\"},"
					   "\"propertyNames\":{\"pattern\":\"^[ab]{1,2}$\"}}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"object\",\"minProperties\":3,"
					   "\"additionalProperties\":{\"type\":\"null\"}}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"array\",\"items\":{\"enum\":[1,\"x\",null]},\"minItems\":2,"
					   "\"maxItems\":5}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"},{\"type\":\"boolean\"}],"
					   "\"items\":{\"type\":\"null\"},\"minItems\":1,\"maxItems\":4}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"array\",\"contains\":{\"const\":7},\"items\":{\"type\":\"integer\"},"
					   "\"minContains\":2,\"maxItems\":5}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[\"a\",\"b\",\"c\"]},"
					   "\"minItems\":2}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"number\",\"multipleOf\":0.5,\"minimum\":-2,\"exclusiveMaximum\":2}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":50,\"maximum\":100}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"integer\",\"multipleOf\":9973,\"minimum\":100,\"maximum\":99999999}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"number\",\"multipleOf\":0.9973}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"integer\",\"multipleOf\":1200}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"integer\",\"exclusiveMinimum\":-5,\"maximum\":1000000007}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"number\",\"minimum\":0.001,\"maximum\":0.25}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"number\"}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"string\",\"format\":\"date-time\"}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"string\",\"format\":\"email\"}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"string\",\"format\":\"ipv6\"}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"string\",\"format\":\"uri\",\"maxLength\":40}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"string\",\"minLength\":3,\"maxLength\":6}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"string\",\"pattern\":\"a.*b\",\"minLength\":4,\"maxLength\":9}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"string\",\"pattern\":\"^(\\\\S+\\\\s+){0,3}\\\\S+$\",\"maxLength\":12}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"string\",\"not\":{\"pattern\":\"[aeiou]\"},\"minLength\":2}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"object\",\"properties\":{\"n\":{\"anyOf\":[{\"$ref\":\"#\"},"
					   "{\"type\":\"null\"}]}},\"required\":[\"n\"],\"additionalProperties\":false}"},
	{GRAM_JSON_SCHEMA, "{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"k\":{\"const\":\"a\"},"
	"\"v\":{\"type\":\"boolean\"}},\"required\":[\"k\",\"v\"]},{\"type\":\"object\","
	"\"properties\":{\"k\":{\"const\":\"b\"}},\"required\":[\"k\"]}]}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"object\",\"properties\":{\"t\":{\"enum\":[\"x\",\"y\"]}},"
					   "\"required\":[\"t\"],\"if\":{\"properties\":{\"t\":{\"const\":\"x\"}}},"
	"\"then\":{\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]},"
	"\"else\":{\"properties\":{\"b\":{\"type\":\"string\"}},\"required\":[\"b\"]}}"},
	{GRAM_JSON_SCHEMA, "{\"allOf\":[{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},"
					   "\"required\":[\"a\"]},{\"properties\":{\"b\":{\"type\":\"null\"}},"
					   "\"required\":[\"b\"]}]}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"object\",\"properties\":{\"card\":{\"type\":\"integer\"},"
					   "\"address\":{\"type\":\"string\"},\"zip\":{\"type\":\"string\",\"maxLength\":3}},"
					   "\"dependentRequired\":{\"card\":[\"address\"],\"zip\":[\"card\"]}}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"object\",\"patternProperties\":{\"^s_\":{\"type\":\"string\"},"
					   "\"^i_\":{\"type\":\"integer\"}},\"additionalProperties\":false,\"minProperties\":1}"},
	{GRAM_JSON_SCHEMA, "{\"type\":\"object\",\"properties\":{\"\\u00e9\\\"\\\\\":{\"type\":\"null\"},"
					   "\"\\n\":{\"type\":\"null\"}},\"required\":[\"\\u00e9\\\"\\\\\",\"\\n\"]}"},
	{GRAM_JSON_SCHEMA, "{\"enum\":[{\"a\":[1,2.5]},[],\"\\u20ac\\t\",-0.5,true]}"},
	{GRAM_JSON_SCHEMA, "{\"type\":[\"integer\",\"null\",\"array\"],\"items\":{\"type\":\"boolean\"},"
					   "\"minimum\":-1,\"maximum\":1}"},
	{GRAM_JSON_SCHEMA, "{\"$defs\":{\"tree\":{\"type\":\"object\","
					   "\"properties\":{\"v\":{\"type\":\"integer\"},\"kids\":{\"type\":\"array\","
					   "\"items\":{\"$ref\":\"#/$defs/tree\"},\"maxItems\":2}},\"required\":[\"v\","
					   "\"kids\"]}},\"$ref\":\"#/$defs/tree\"}"}
};

#endif
