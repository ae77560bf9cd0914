-- Texts in chunks (the fake engine's tokens are bytes).
SET client_min_messages = warning;
SELECT * FROM llm_chunk_text('abcdefghij', size => 4);
SELECT * FROM llm_chunk_text('abcdefghij', 'tokens', 4, 2);
SELECT * FROM llm_chunk_text('One two. Three four five. Six!', 'sentences', 20);
SELECT seq, quote_literal(chunk) AS chunk, tok_start, tok_end FROM llm_chunk_text(E'# One\n\nText here.\n\n## Two\n\n```\na b\n```\n', 'markdown', 24);
SELECT seq, quote_literal(chunk) AS chunk, tok_start, tok_end FROM llm_chunk_text(E'One two.\n\nThree four. Five six.\nSeven', 'recursive', 12, 0, 'tickets-2m');
SELECT * FROM llm_chunk_text('all of it', 'none');
-- characters stay whole
SELECT chunk, tok_start, tok_end FROM llm_chunk_text('Grüße 世界', size => 4);
SELECT chunk FROM llm_chunk_text('世界', size => 1);
-- nothing to cut, NULL
SELECT count(*) FROM llm_chunk_text('');
SELECT count(*) FROM llm_chunk_text(NULL);
SELECT count(*) FROM llm_chunk_text(E' \n ', 'sentences');
SELECT count(*), max(length(chunk)) FROM llm_chunk_text(repeat('x', 1000), NULL, NULL, NULL, NULL);

-- over many texts: put together they are the texts, no chunk is longer than asked, every overlap is what was asked for
CREATE TABLE texts AS SELECT i AS id, repeat('Grüße ' || i || E'. Ein Satz, der länger ist.\n\n', i % 7 + 1) AS body FROM generate_series(1, 60) i;
SELECT count(*) AS wrong FROM texts t WHERE body <> (SELECT string_agg(chunk, '' ORDER BY seq) FROM llm_chunk_text(t.body, 'tokens', 25));
SELECT method, size, overlap, count(*) > 60 AS many, max(octet_length(chunk)) <= size AS fit, max(tok_end - tok_start) <= size AS counted
FROM texts, (VALUES ('tokens', 10, 0), ('tokens', 30, 7), ('sentences', 30, 0), ('recursive', 20, 5), ('markdown', 33, 4)) o (method, size, overlap),
     LATERAL llm_chunk_text(body, method, size, overlap) GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT count(*) AS wrong FROM
    (SELECT left(chunk, 5) AS head, right(lag(chunk) OVER (PARTITION BY id ORDER BY seq), 5) AS tail
     FROM (SELECT i AS id, repeat('abcdefghi ', i) AS body FROM generate_series(1, 9) i) t, llm_chunk_text(body, 'tokens', 12, 5)) s
WHERE head <> tail;

-- in FROM, many texts are in flight together; in the select list one by one, with the same result
EXPLAIN (COSTS OFF) SELECT id, c.seq, c.chunk FROM texts, llm_chunk_text(body, 'sentences', 40) c;
SELECT count(*) FROM
    (SELECT id, c.seq, c.chunk FROM texts, llm_chunk_text(body, 'sentences', 40) c
     EXCEPT ALL SELECT id, (c).seq, (c).chunk FROM (SELECT id, llm_chunk_text(body, 'sentences', 40) AS c FROM texts) s) d;
SET vllm.batch = off;
CREATE TABLE serially AS SELECT id, c.* FROM texts, llm_chunk_text(body, 'sentences', 40, 10) c;
RESET vllm.batch;
SELECT count(*) FROM (SELECT id, c.* FROM texts, llm_chunk_text(body, 'sentences', 40, 10) c EXCEPT ALL TABLE serially) d;

-- long texts
SELECT count(*), sum(length(chunk)) FROM llm_chunk_text(repeat('A sentence of no great length. ', 100000), 'sentences', 500);
SELECT count(*), sum(length(chunk)) FROM llm_chunk_text(repeat('0123456789', 300000), 'tokens', 1000);

-- refused
SELECT fails(format('SELECT * FROM llm_chunk_text(%s)', args)) FROM (VALUES
    ($$'x', 'words'$$), ($$'x', size => 0$$), ($$'x', size => -5$$), ($$'x', size => 5, overlap => 5$$), ($$'x', size => 5, overlap => -1$$),
    ($$'x', overlap => 400$$), ($$'x', 'none', 5$$), ($$'x', 'none', overlap => 1$$), ($$'x', model => 'nobody'$$)) a (args);
SELECT fails($$SELECT * FROM vllm.chunk_rows('abc', '{0,1}')$$), fails($$SELECT * FROM vllm.chunk_rows('abc', '{0,4,0,1}')$$);
DROP TABLE texts, serially;
SELECT left_behind();
