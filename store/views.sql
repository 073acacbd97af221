-- What analysts read besides the tables of schema.sql: prices, and views over the tables.
-- Made anew at a start whenever this text or a price has changed; nothing here is migrated.
-- A comment of schema.sql that was written anew stands here too: so databases of before have it as well.
-- Days are days in UTC, cut by arithmetic: a calendar with zones costs ten times as much over
-- ten million rows. For another zone cut the time itself: (ended_at AT TIME ZONE 'Europe/Berlin')::DATE.

DROP VIEW IF EXISTS usage_daily;
DROP VIEW IF EXISTS costs;
DROP VIEW IF EXISTS latency;
DROP VIEW IF EXISTS participants;
DROP VIEW IF EXISTS posts;
DROP TABLE IF EXISTS prices;

COMMENT ON COLUMN incidents.what IS '`crashed`, `restarted`, `degraded`, `recovered`, `escalated`, `dead_letter` or `blocked`. Of deliveries: `unclear` (nobody knows whether a post was made), `maybe_duplicate` (one may stand there twice), `rate_limited` (nothing can be posted there for long). Of platforms: `fell` and `rose` of a connection, `needs_human`.';

CREATE TABLE prices (
    provider VARCHAR NOT NULL,
    model VARCHAR NOT NULL,
    input_usd DOUBLE NOT NULL,
    output_usd DOUBLE NOT NULL,
    cache_read_usd DOUBLE NOT NULL,
    cache_write_usd DOUBLE NOT NULL,
    input_has_cache BOOLEAN NOT NULL,
    source VARCHAR NOT NULL,
    as_of DATE
);
COMMENT ON TABLE prices IS 'What models cost, in US dollars per million tokens: the built-in list, and `prices` of callboard.yaml.';
COMMENT ON COLUMN prices.provider IS 'The provider''s name in callboard.yaml; `*` is any.';
COMMENT ON COLUMN prices.model IS 'The model''s name; `*` stands for any characters. The longest that fits counts; one of callboard.yaml comes before all built-in ones.';
COMMENT ON COLUMN prices.input_usd IS 'For a million tokens read.';
COMMENT ON COLUMN prices.output_usd IS 'For a million tokens written.';
COMMENT ON COLUMN prices.cache_read_usd IS 'For a million tokens read from the provider''s cache.';
COMMENT ON COLUMN prices.cache_write_usd IS 'For a million tokens written to the provider''s cache.';
COMMENT ON COLUMN prices.input_has_cache IS 'Whether the provider counts cached tokens among `input_tokens`.';
COMMENT ON COLUMN prices.source IS '`built-in` or `callboard.yaml`.';
COMMENT ON COLUMN prices.as_of IS 'As of when a built-in price was noted (check it against your bill); NULL for an operator''s.';

CREATE VIEW participants AS
SELECT
    platform,
    account,
    author_id,
    arg_max(author_name, id) AS author_name,
    count(*) AS messages,
    count(DISTINCT session_key) AS sessions,
    min(said_at) AS first_at,
    max(said_at) AS last_at
FROM messages
WHERE role = 'user'
GROUP BY platform, account, author_id;
COMMENT ON VIEW participants IS 'People who wrote: one row per person and account of ours.';
COMMENT ON COLUMN participants.platform IS 'Where they wrote: `discord`, `web` and so on.';
COMMENT ON COLUMN participants.account IS 'To which of our accounts on the platform.';
COMMENT ON COLUMN participants.author_id IS 'The platform''s id of the person.';
COMMENT ON COLUMN participants.author_name IS 'The name in their latest message; chosen by them, untrusted.';
COMMENT ON COLUMN participants.messages IS 'Messages of theirs, without commands.';
COMMENT ON COLUMN participants.sessions IS 'In how many places (session keys) they wrote.';
COMMENT ON COLUMN participants.first_at IS 'Their first message.';
COMMENT ON COLUMN participants.last_at IS 'Their latest message.';

CREATE VIEW costs AS
WITH priced AS (
    SELECT used.provider AS used_provider, used.model AS used_model, prices.*
    FROM (SELECT DISTINCT provider, model FROM model_calls) AS used
    JOIN prices ON (prices.provider = '*' OR prices.provider = used.provider) AND used.model GLOB prices.model
    QUALIFY row_number() OVER (
        PARTITION BY used.provider, used.model
        ORDER BY prices.source <> 'built-in' DESC, prices.provider <> '*' DESC, length(prices.model) DESC
    ) = 1
), counted AS (
    SELECT
        c.*,
        p.* EXCLUDE (provider, model),
        p.model AS priced_as,
        CASE WHEN p.input_has_cache
            THEN greatest(0, c.input_tokens - coalesce(c.cache_read_tokens, 0) - coalesce(c.cache_write_tokens, 0))
            ELSE c.input_tokens
        END AS fresh_tokens
    FROM model_calls AS c
    LEFT JOIN priced AS p ON c.provider = p.used_provider AND c.model = p.used_model
    WHERE c.outcome = 'answered'
)
SELECT
    id,
    session_key,
    turn,
    model_call,
    provider,
    model,
    ended_at,
    input_tokens,
    output_tokens,
    cache_read_tokens,
    cache_write_tokens,
    fresh_tokens * input_usd / 1e6 AS input_cost_usd,
    output_tokens * output_usd / 1e6 AS output_cost_usd,
    (coalesce(cache_read_tokens, 0) * cache_read_usd + coalesce(cache_write_tokens, 0) * cache_write_usd) / 1e6
        AS cache_cost_usd,
    input_cost_usd + output_cost_usd + cache_cost_usd AS cost_usd,
    priced_as
FROM counted;
COMMENT ON VIEW costs IS 'What each answered model call cost by `prices`, in US dollars. NULL is unknown: no price fits, or the provider did not count. A bill may differ.';
COMMENT ON COLUMN costs.id IS 'The fact''s id in `facts`, as in `model_calls`.';
COMMENT ON COLUMN costs.session_key IS 'The place of the conversation; parts are percent-encoded.';
COMMENT ON COLUMN costs.turn IS 'Number of the run within its session key.';
COMMENT ON COLUMN costs.model_call IS 'Number of the call within the turn.';
COMMENT ON COLUMN costs.provider IS 'Provider that answered.';
COMMENT ON COLUMN costs.model IS 'Model that answered.';
COMMENT ON COLUMN costs.ended_at IS 'When the answer was complete.';
COMMENT ON COLUMN costs.input_tokens IS 'Tokens read, as the provider counted.';
COMMENT ON COLUMN costs.output_tokens IS 'Tokens written, as the provider counted.';
COMMENT ON COLUMN costs.cache_read_tokens IS 'Tokens read from the provider''s cache.';
COMMENT ON COLUMN costs.cache_write_tokens IS 'Tokens written to the provider''s cache.';
COMMENT ON COLUMN costs.input_cost_usd IS 'For tokens read outside the cache.';
COMMENT ON COLUMN costs.output_cost_usd IS 'For tokens written.';
COMMENT ON COLUMN costs.cache_cost_usd IS 'For the cache, reading and writing.';
COMMENT ON COLUMN costs.cost_usd IS 'All of it.';
COMMENT ON COLUMN costs.priced_as IS 'The line of `prices` that was used; NULL when none fits.';

CREATE VIEW usage_daily AS
SELECT
    make_timestamp(epoch_us(c.ended_at))::DATE AS day,
    split_part(c.session_key, ':', 3) AS platform,
    c.provider,
    c.model,
    count(*) FILTER (c.outcome = 'answered') AS answered_calls,
    count(*) FILTER (c.outcome = 'failed') AS failed_calls,
    sum(c.input_tokens)::BIGINT AS input_tokens,
    sum(c.output_tokens)::BIGINT AS output_tokens,
    sum(c.cache_read_tokens)::BIGINT AS cache_read_tokens,
    sum(c.cache_write_tokens)::BIGINT AS cache_write_tokens,
    sum(k.cost_usd) AS cost_usd,
    count(*) FILTER (c.outcome = 'answered' AND k.cost_usd IS NULL) AS unpriced_calls
FROM model_calls AS c
LEFT JOIN costs AS k ON c.id = k.id
GROUP BY ALL;
COMMENT ON VIEW usage_daily IS 'Model calls per day (UTC), platform and model.';
COMMENT ON COLUMN usage_daily.day IS 'The day, in UTC.';
COMMENT ON COLUMN usage_daily.platform IS 'Where the conversation is: `discord`, `web` and so on.';
COMMENT ON COLUMN usage_daily.provider IS 'Provider that was asked.';
COMMENT ON COLUMN usage_daily.model IS 'Model that was asked.';
COMMENT ON COLUMN usage_daily.answered_calls IS 'Calls that were answered.';
COMMENT ON COLUMN usage_daily.failed_calls IS 'Attempts that failed.';
COMMENT ON COLUMN usage_daily.input_tokens IS 'Tokens read; NULL when no provider counted.';
COMMENT ON COLUMN usage_daily.output_tokens IS 'Tokens written; NULL when no provider counted.';
COMMENT ON COLUMN usage_daily.cache_read_tokens IS 'Tokens read from a cache; NULL when no provider counted.';
COMMENT ON COLUMN usage_daily.cache_write_tokens IS 'Tokens written to a cache; NULL when no provider counted.';
COMMENT ON COLUMN usage_daily.cost_usd IS 'Cost of the calls whose price is known; NULL when that is none. See `unpriced_calls`.';
COMMENT ON COLUMN usage_daily.unpriced_calls IS 'Answered calls whose cost is unknown and not in `cost_usd`.';

CREATE VIEW latency AS
WITH asked AS (
    SELECT
        session_key,
        turn,
        arg_min(first_token_ms, id) FILTER (outcome = 'answered') AS first_token_ms,
        sum(duration_ms) AS model_ms,
        count(*) FILTER (outcome = 'failed') AS failed_calls
    FROM model_calls GROUP BY session_key, turn
), worked AS (
    SELECT session_key, turn, sum(duration_ms) AS tool_ms FROM tool_calls GROUP BY session_key, turn
), told AS (
    SELECT m.session_key, m.turn, min(m.said_at) AS owed_at, min(d.delivered_at) AS delivered_at
    FROM messages AS m LEFT JOIN deliveries AS d USING (session_key, delivery_id)
    WHERE m.role = 'assistant' GROUP BY m.session_key, m.turn
), said AS (
    SELECT session_key, message_id, min(said_at) AS said_at
    FROM messages WHERE message_id IS NOT NULL GROUP BY session_key, message_id
)
SELECT
    t.id,
    t.session_key,
    split_part(t.session_key, ':', 3) AS platform,
    t.turn,
    t.reason,
    said.said_at,
    (epoch_us(t.began_at) - epoch_us(said.said_at)) / 1e3 AS waited_ms,
    asked.first_token_ms,
    asked.model_ms,
    worked.tool_ms,
    t.duration_ms AS turn_ms,
    (epoch_us(told.delivered_at) - epoch_us(told.owed_at)) / 1e3 AS delivery_ms,
    (epoch_us(told.owed_at) - epoch_us(said.said_at)) / 1e3 AS answer_ms,
    coalesce(asked.failed_calls, 0) AS failed_calls
FROM turns AS t
LEFT JOIN said ON t.session_key = said.session_key AND t.message_ids[1] = said.message_id
LEFT JOIN asked ON t.session_key = asked.session_key AND t.turn = asked.turn
LEFT JOIN worked ON t.session_key = worked.session_key AND t.turn = worked.turn
LEFT JOIN told ON t.session_key = told.session_key AND t.turn = told.turn;
COMMENT ON VIEW latency IS 'Where the time of each run went, in milliseconds.';
COMMENT ON COLUMN latency.id IS 'The fact''s id in `facts`, as in `turns`.';
COMMENT ON COLUMN latency.session_key IS 'The place of the conversation; parts are percent-encoded.';
COMMENT ON COLUMN latency.platform IS 'Where the conversation is: `discord`, `web` and so on.';
COMMENT ON COLUMN latency.turn IS 'Number of the run within its session key.';
COMMENT ON COLUMN latency.reason IS 'How it ended, as in `turns`.';
COMMENT ON COLUMN latency.said_at IS 'When the first message that it settles was taken.';
COMMENT ON COLUMN latency.waited_ms IS 'From that message to the begin of the run: above zero when it had to wait.';
COMMENT ON COLUMN latency.first_token_ms IS 'In the first answered model call: until the first piece of the answer.';
COMMENT ON COLUMN latency.model_ms IS 'In all its model calls, failed ones included.';
COMMENT ON COLUMN latency.tool_ms IS 'In all its tool calls, added up; those that ran side by side count each. NULL without any.';
COMMENT ON COLUMN latency.turn_ms IS 'From the begin of the run to its end.';
COMMENT ON COLUMN latency.delivery_ms IS 'From the final answer to the platform''s receipt; 0 where the surface reads the history itself.';
COMMENT ON COLUMN latency.answer_ms IS 'From the message to the final answer: what the person waited, without the delivery.';
COMMENT ON COLUMN latency.failed_calls IS 'Failed attempts of model calls in it.';

CREATE VIEW posts AS
SELECT
    id,
    stream[8:] AS outbox,
    fact ->> '$.delivery_id' AS delivery_id,
    (fact ->> '$.part')::BIGINT AS part,
    (fact ->> '$.attempt')::BIGINT AS attempt,
    CASE kind
        WHEN 'part_delivered' THEN 'posted'
        WHEN 'part_not_taken' THEN 'not_posted'
        WHEN 'part_unclear' THEN 'unclear'
        ELSE 'given_up'
    END AS outcome,
    fact ->> '$.problem.kind' AS problem,
    coalesce(fact ->> '$.problem.detail', fact ->> '$.why') AS detail,
    fact ->> '$.receipt' AS receipt,
    (fact ->> '$.maybe_duplicate')::BOOLEAN AS maybe_duplicate,
    (fact ->> '$.at')::TIMESTAMPTZ AS at
FROM facts
WHERE kind IN ('part_delivered', 'part_not_taken', 'part_unclear', 'delivery_failed')
    AND starts_with(stream, 'outbox:');
COMMENT ON VIEW posts IS 'Posts to chat platforms: one row for each outcome of a call, and for each reply that was given up.';
COMMENT ON COLUMN posts.id IS 'The fact''s id in `facts`; unique and rising.';
COMMENT ON COLUMN posts.outbox IS 'The account: `platform:account`.';
COMMENT ON COLUMN posts.delivery_id IS 'The reply; see `messages`. One that ends in `/undelivered` is the notice that a reply was given up.';
COMMENT ON COLUMN posts.part IS 'Which post of the reply, from 1; NULL for `given_up`.';
COMMENT ON COLUMN posts.attempt IS 'Which call with it; NULL for `posted` and `given_up`.';
COMMENT ON COLUMN posts.outcome IS '`posted`, `not_posted`, `unclear` (nobody knows), or `given_up`.';
COMMENT ON COLUMN posts.problem IS 'Why it was not posted: `transient`, `rate_limited`, `target_gone`, `refused` and so on.';
COMMENT ON COLUMN posts.detail IS 'The platform''s words for it, or why the reply was given up.';
COMMENT ON COLUMN posts.receipt IS 'The platform''s id of the post.';
COMMENT ON COLUMN posts.maybe_duplicate IS 'Whether an earlier call may have been posted too.';
COMMENT ON COLUMN posts.at IS 'When.';
