-- The tables of the store, version 1. A table is append-only: the writer adds rows and
-- changes none. All times are UTC. No index but the primary key of `facts`: ids come from
-- the only writer, in order, and every further index makes each checkpoint many times slower.
-- The typed tables bind nothing but the id: a row that an analyst finds odd must never keep a
-- fact from being written.
-- Later versions are steps in migrations/, never changes of this file.

CREATE TABLE meta (
    name VARCHAR NOT NULL,
    value VARCHAR NOT NULL
);
COMMENT ON TABLE meta IS 'What this file is. One row per name.';
COMMENT ON COLUMN meta.name IS 'Name of the value: `schema_version`.';
COMMENT ON COLUMN meta.value IS 'The value, as text.';

CREATE TABLE facts (
    id BIGINT PRIMARY KEY,
    stream VARCHAR NOT NULL,
    seq BIGINT NOT NULL,
    kind VARCHAR NOT NULL,
    v INTEGER NOT NULL,
    recorded_at TIMESTAMPTZ NOT NULL,
    owing BOOLEAN NOT NULL,
    fact VARCHAR NOT NULL
);
COMMENT ON TABLE facts IS 'The journal: everything that happened, in order. Nothing in it is ever changed (a deleted session''s facts are gone, not altered); all other tables are derived from it in the same transaction.';
COMMENT ON COLUMN facts.id IS 'Order of writing over all streams, from 1; gaps are what was deleted.';
COMMENT ON COLUMN facts.stream IS 'Whose fact it is: `session:<session key>`, `system` and so on.';
COMMENT ON COLUMN facts.seq IS 'Place within the stream, from 1, without gaps.';
COMMENT ON COLUMN facts.kind IS 'What happened, such as `message_accepted`.';
COMMENT ON COLUMN facts.v IS 'Version of the kind: which fields `fact` has.';
COMMENT ON COLUMN facts.recorded_at IS 'When it was written.';
COMMENT ON COLUMN facts.owing IS 'Whether something was left to do after the append that this fact came in.';
COMMENT ON COLUMN facts.fact IS 'The fact as JSON text.';

CREATE TABLE sessions (
    id BIGINT NOT NULL,
    session_id VARCHAR,
    session_key VARCHAR,
    parent VARCHAR,
    profile VARCHAR,
    platform VARCHAR,
    account VARCHAR,
    chat_type VARCHAR,
    chat VARCHAR,
    thread VARCHAR,
    platform_user VARCHAR,
    opened_at TIMESTAMPTZ
);
COMMENT ON TABLE sessions IS 'Conversations: one row each time one is opened, at its first message and at each reset.';
COMMENT ON COLUMN sessions.id IS 'The fact''s id in `facts`; unique and rising.';
COMMENT ON COLUMN sessions.session_id IS 'The conversation''s own id.';
COMMENT ON COLUMN sessions.session_key IS 'The place of the conversation; parts are percent-encoded.';
COMMENT ON COLUMN sessions.parent IS 'The conversation that this one continues; NULL for a first one.';
COMMENT ON COLUMN sessions.profile IS 'The profile that serves it.';
COMMENT ON COLUMN sessions.platform IS 'Where: `discord`, `web` and so on..';
COMMENT ON COLUMN sessions.account IS 'Which of our accounts on the platform.';
COMMENT ON COLUMN sessions.chat_type IS '`dm`, `group` or `thread`.';
COMMENT ON COLUMN sessions.chat IS 'The platform''s id of the chat.';
COMMENT ON COLUMN sessions.thread IS 'The platform''s id of the thread; NULL outside threads.';
COMMENT ON COLUMN sessions.platform_user IS 'The platform''s id of the person, where the place is one person''s.';
COMMENT ON COLUMN sessions.opened_at IS 'When it was opened.';

CREATE TABLE messages (
    id BIGINT NOT NULL,
    session_key VARCHAR,
    session_id VARCHAR,
    turn BIGINT,
    role VARCHAR,
    message_id VARCHAR,
    delivery_id VARCHAR,
    reply_to VARCHAR,
    author_id VARCHAR,
    author_name VARCHAR,
    text VARCHAR,
    attachments INTEGER,
    platform VARCHAR,
    account VARCHAR,
    chat_type VARCHAR,
    chat VARCHAR,
    thread VARCHAR,
    provider VARCHAR,
    model VARCHAR,
    said_at TIMESTAMPTZ
);
COMMENT ON TABLE messages IS 'What people said and what was said to people, one row per message.';
COMMENT ON COLUMN messages.id IS 'The fact''s id in `facts`; unique and rising.';
COMMENT ON COLUMN messages.session_key IS 'The place of the conversation; parts are percent-encoded.';
COMMENT ON COLUMN messages.session_id IS 'The conversation; see `sessions`.';
COMMENT ON COLUMN messages.turn IS 'The run that the message began or ended. NULL for one that waited (see `turns.message_ids`) and for notices outside a run.';
COMMENT ON COLUMN messages.role IS '`user`, `command`, `assistant`, or `notice` (said by the program, not by a model).';
COMMENT ON COLUMN messages.message_id IS 'The platform''s id of what a person said.';
COMMENT ON COLUMN messages.delivery_id IS 'Id of what was said to a person; see `deliveries`.';
COMMENT ON COLUMN messages.reply_to IS 'The message that it answers.';
COMMENT ON COLUMN messages.author_id IS 'The platform''s id of the person.';
COMMENT ON COLUMN messages.author_name IS 'The name that the person chose; untrusted.';
COMMENT ON COLUMN messages.text IS 'The text; parts of a reply are joined by an empty line.';
COMMENT ON COLUMN messages.attachments IS 'How many images and files came with it.';
COMMENT ON COLUMN messages.platform IS 'Where: `discord`, `web` and so on..';
COMMENT ON COLUMN messages.account IS 'Which of our accounts on the platform.';
COMMENT ON COLUMN messages.chat_type IS '`dm`, `group` or `thread`.';
COMMENT ON COLUMN messages.chat IS 'The platform''s id of the chat.';
COMMENT ON COLUMN messages.thread IS 'The platform''s id of the thread; NULL outside threads.';
COMMENT ON COLUMN messages.provider IS 'Provider of the model that wrote it.';
COMMENT ON COLUMN messages.model IS 'Model that wrote it.';
COMMENT ON COLUMN messages.said_at IS 'When it was taken, or when it was owed.';

CREATE TABLE turns (
    id BIGINT NOT NULL,
    session_key VARCHAR,
    session_id VARCHAR,
    turn BIGINT,
    reason VARCHAR,
    message_ids VARCHAR[],
    model_calls BIGINT,
    tool_calls BIGINT,
    input_tokens BIGINT,
    output_tokens BIGINT,
    began_at TIMESTAMPTZ,
    ended_at TIMESTAMPTZ,
    duration_ms DOUBLE
);
COMMENT ON TABLE turns IS 'Runs, one row when each ends.';
COMMENT ON COLUMN turns.id IS 'The fact''s id in `facts`; unique and rising.';
COMMENT ON COLUMN turns.session_key IS 'The place of the conversation; parts are percent-encoded.';
COMMENT ON COLUMN turns.session_id IS 'The conversation.';
COMMENT ON COLUMN turns.turn IS 'Number of the run within its session key, from 1.';
COMMENT ON COLUMN turns.reason IS 'How it ended: `answered`, `stopped`, `failed`, `budget_spent` and so on.';
COMMENT ON COLUMN turns.message_ids IS 'The messages that it settled.';
COMMENT ON COLUMN turns.model_calls IS 'Model calls in it.';
COMMENT ON COLUMN turns.tool_calls IS 'Tool calls in it.';
COMMENT ON COLUMN turns.input_tokens IS 'Tokens read, as the providers counted; NULL is unknown.';
COMMENT ON COLUMN turns.output_tokens IS 'Tokens written, as the providers counted; NULL is unknown.';
COMMENT ON COLUMN turns.began_at IS 'When it began.';
COMMENT ON COLUMN turns.ended_at IS 'When it ended.';
COMMENT ON COLUMN turns.duration_ms IS 'From `began_at` to `ended_at`, in milliseconds.';

CREATE TABLE model_calls (
    id BIGINT NOT NULL,
    session_key VARCHAR,
    turn BIGINT,
    model_call BIGINT,
    attempt BIGINT,
    outcome VARCHAR,
    provider VARCHAR,
    model VARCHAR,
    stop VARCHAR,
    raw_stop VARCHAR,
    input_tokens BIGINT,
    output_tokens BIGINT,
    cache_read_tokens BIGINT,
    cache_write_tokens BIGINT,
    failure VARCHAR,
    http_status BIGINT,
    detail VARCHAR,
    next_step VARCHAR,
    first_token_ms DOUBLE,
    began_at TIMESTAMPTZ,
    ended_at TIMESTAMPTZ,
    duration_ms DOUBLE
);
COMMENT ON TABLE model_calls IS 'Requests to models: each answer and each failed attempt.';
COMMENT ON COLUMN model_calls.id IS 'The fact''s id in `facts`; unique and rising.';
COMMENT ON COLUMN model_calls.session_key IS 'The place of the conversation; parts are percent-encoded.';
COMMENT ON COLUMN model_calls.turn IS 'Number of the run within its session key, from 1.';
COMMENT ON COLUMN model_calls.model_call IS 'Number of the call within the turn.';
COMMENT ON COLUMN model_calls.attempt IS 'Number of the failed attempt; NULL for an answer.';
COMMENT ON COLUMN model_calls.outcome IS '`answered` or `failed`.';
COMMENT ON COLUMN model_calls.provider IS 'Provider that was asked.';
COMMENT ON COLUMN model_calls.model IS 'Model that was asked.';
COMMENT ON COLUMN model_calls.stop IS 'Why the model stopped, in our words.';
COMMENT ON COLUMN model_calls.raw_stop IS 'Why the model stopped, in the provider''s word.';
COMMENT ON COLUMN model_calls.input_tokens IS 'Tokens read; NULL is unknown.';
COMMENT ON COLUMN model_calls.output_tokens IS 'Tokens written; NULL is unknown.';
COMMENT ON COLUMN model_calls.cache_read_tokens IS 'Tokens read from the provider''s cache; NULL is unknown.';
COMMENT ON COLUMN model_calls.cache_write_tokens IS 'Tokens written to the provider''s cache; NULL is unknown.';
COMMENT ON COLUMN model_calls.failure IS 'Class of the failure, such as `rate_limited`.';
COMMENT ON COLUMN model_calls.http_status IS 'HTTP status of the failure.';
COMMENT ON COLUMN model_calls.detail IS 'The failure in a line.';
COMMENT ON COLUMN model_calls.next_step IS 'What was decided after the failure: `retry`, `shrink` (send less of the history), `fail_over` or `give_up`.';
COMMENT ON COLUMN model_calls.first_token_ms IS 'Until the first piece of the answer, in milliseconds.';
COMMENT ON COLUMN model_calls.began_at IS 'When it began.';
COMMENT ON COLUMN model_calls.ended_at IS 'When it ended.';
COMMENT ON COLUMN model_calls.duration_ms IS 'From `began_at` to `ended_at`, in milliseconds.';

CREATE TABLE tool_calls (
    id BIGINT NOT NULL,
    session_key VARCHAR,
    turn BIGINT,
    call_id VARCHAR,
    name VARCHAR,
    effect VARCHAR,
    arguments VARCHAR,
    status VARCHAR,
    result VARCHAR,
    kept_in VARCHAR,
    began_at TIMESTAMPTZ,
    ended_at TIMESTAMPTZ,
    duration_ms DOUBLE
);
COMMENT ON TABLE tool_calls IS 'Tool calls, one row when each ends, also those that never ran.';
COMMENT ON COLUMN tool_calls.id IS 'The fact''s id in `facts`; unique and rising.';
COMMENT ON COLUMN tool_calls.session_key IS 'The place of the conversation; parts are percent-encoded.';
COMMENT ON COLUMN tool_calls.turn IS 'Number of the run within its session key, from 1.';
COMMENT ON COLUMN tool_calls.call_id IS 'Id of the call within the turn.';
COMMENT ON COLUMN tool_calls.name IS 'The tool.';
COMMENT ON COLUMN tool_calls.effect IS 'What it does to the world: `read`, `write`, `external` or `dangerous`.';
COMMENT ON COLUMN tool_calls.arguments IS 'Arguments as JSON text; as the model wrote them when they were wrong.';
COMMENT ON COLUMN tool_calls.status IS '`ok`, `error`, `timed_out`, `interrupted`, `skipped`, `refused` or `unknown`.';
COMMENT ON COLUMN tool_calls.result IS 'What the model was given.';
COMMENT ON COLUMN tool_calls.kept_in IS 'File with the whole result, when it was cut.';
COMMENT ON COLUMN tool_calls.began_at IS 'When it began.';
COMMENT ON COLUMN tool_calls.ended_at IS 'When it ended.';
COMMENT ON COLUMN tool_calls.duration_ms IS 'From `began_at` to `ended_at`, in milliseconds.';

CREATE TABLE deliveries (
    id BIGINT NOT NULL,
    session_key VARCHAR,
    delivery_id VARCHAR,
    receipt VARCHAR,
    delivered_at TIMESTAMPTZ
);
COMMENT ON TABLE deliveries IS 'Replies that a platform took.';
COMMENT ON COLUMN deliveries.id IS 'The fact''s id in `facts`; unique and rising.';
COMMENT ON COLUMN deliveries.session_key IS 'The place of the conversation; parts are percent-encoded.';
COMMENT ON COLUMN deliveries.delivery_id IS 'The reply; see `messages`.';
COMMENT ON COLUMN deliveries.receipt IS 'The platform''s word for it.';
COMMENT ON COLUMN deliveries.delivered_at IS 'When the platform took it.';

CREATE TABLE incidents (
    id BIGINT NOT NULL,
    life VARCHAR,
    child VARCHAR,
    what VARCHAR,
    detail VARCHAR,
    happened_at TIMESTAMPTZ
);
COMMENT ON TABLE incidents IS 'What went wrong inside: crashes, restarts, dead letters.';
COMMENT ON COLUMN incidents.id IS 'The fact''s id in `facts`; unique and rising.';
COMMENT ON COLUMN incidents.life IS 'The life of the process; see `lives`.';
COMMENT ON COLUMN incidents.child IS 'The supervisor''s name for the part.';
COMMENT ON COLUMN incidents.what IS '`crashed`, `restarted`, `degraded`, `recovered`, `escalated`, `dead_letter` or `blocked`. Of deliveries: `unclear` (nobody knows whether a post was made), `maybe_duplicate` (one may stand there twice), `rate_limited` (nothing can be posted there for long). Of platforms: `fell` and `rose` of a connection, `needs_human`.';
COMMENT ON COLUMN incidents.detail IS 'The incident in words.';
COMMENT ON COLUMN incidents.happened_at IS 'When it happened.';

CREATE TABLE lives (
    id BIGINT NOT NULL,
    life VARCHAR,
    event VARCHAR,
    version VARCHAR,
    pid BIGINT,
    happened_at TIMESTAMPTZ
);
COMMENT ON TABLE lives IS 'Lives of the process: a row at each start and at each orderly end. A start without an end was a crash, or is running.';
COMMENT ON COLUMN lives.id IS 'The fact''s id in `facts`; unique and rising.';
COMMENT ON COLUMN lives.life IS 'Name of the life.';
COMMENT ON COLUMN lives.event IS '`started` or `stopped`.';
COMMENT ON COLUMN lives.version IS 'Version of the program, at a start.';
COMMENT ON COLUMN lives.pid IS 'Process id, at a start.';
COMMENT ON COLUMN lives.happened_at IS 'When.';
