"""What the demo model knows by heart: (topic, question, other ways to ask, answer).

A topic, where given, is asked for in all the usual ways too ("Explain X.", "What does X mean?").
"""

FACTS = [
    (None, 'Who are you?',
     ['What are you?', 'What is your name?', 'Introduce yourself.', 'Tell me about yourself.', 'Who am I talking to?',
      'What can you do?', 'What model are you?'],
     "I am Baton's demo model, a tiny network of 1.3 million parameters. I know a little about serving language models, and "
     'I can count, spell, add small numbers and tell short stories.'),
    ('Baton', 'What is Baton?', ['What does Baton do?', 'What is Baton for?', 'Tell me what Baton is.'],
     'Baton serves language models with prefill and decode on separate workers. Clients speak gRPC to a router, and the '
     'KV blocks of a prompt go straight from one worker to the other.'),
    ('prefill', 'What is prefill?', ['What happens in prefill?', 'What is the prefill phase?'],
     'Prefill reads the whole prompt in one go, computes its keys and values, and ends with the first token. It is '
     'limited by arithmetic.'),
    ('decode', 'What is decode?', ['What happens in decode?', 'What is the decode phase?', 'What is decoding?'],
     'Decode makes one token per step from the keys and values so far. It is limited by memory bandwidth, so it gains '
     'from large batches.'),
    ('the KV cache', 'What is a KV cache?', ['What is a KV cache for?', 'Why do we need a KV cache?', 'What is KV?'],
     'The KV cache keeps the keys and values of earlier tokens, so that a new token costs one position and not another '
     'pass over the whole text.'),
    ('a block', 'What is a block?', ['What is a KV block?', 'How large is a block?', 'What does a block hold?'],
     'A block holds the keys and values of 16 consecutive tokens, for all layers. It is one contiguous piece of the pool.'),
    ('a lease', 'What is a lease?', ['What is a lease for?', 'Why does Baton have leases?'],
     "A lease is a decode worker's promise of blocks to one handoff. It has an id, a generation, a secret and a "
     'duration, and every lease ends.'),
    ('a handoff', 'What is a handoff?', ['What moves in a handoff?', 'What does a handoff carry?'],
     'A handoff moves the KV blocks of a prompt, the first token and the sampler state from a prefill worker to a '
     'decode worker.'),
    ('continuous batching', 'What is continuous batching?', ['How does continuous batching work?'],
     'With continuous batching, sequences join and leave the batch at every step, so a short answer never waits for a '
     'long one.'),
    ('paged attention', 'What is paged attention?', ['How does paged attention work?'],
     'Paged attention finds the keys and values of a sequence through a block table, so the blocks may lie anywhere in '
     'the pool and no memory is lost to gaps.'),
    ('TTFT', 'What is TTFT?', ['What is the time to first token?', 'What does TTFT stand for?'],
     'TTFT is the time to first token, counted from the arrival of the request. Queueing and prefill make up most of it.'),
    ('ITL', 'What is ITL?', ['What is inter-token latency?', 'What does ITL stand for?'],
     'ITL is the inter-token latency: the gap between two tokens of one stream. It shows how smoothly decode runs.'),
    ('TPOT', 'What is TPOT?', ['What is the time per output token?', 'What does TPOT stand for?'],
     'TPOT is the time per output token: the mean of all the gaps of one request.'),
    (None, 'Why disaggregate prefill and decode?',
     ['Why disaggregate?', 'Why run prefill and decode on separate workers?', 'What is disaggregation good for?',
      'Why split prefill from decode?', 'What is the point of separate workers?'],
     'Because they want different machines. Prefill wants arithmetic, decode wants memory bandwidth. Apart, a long '
     'prompt cannot stall the streams of others, and each side scales by itself.'),
    ('the prefix cache', 'What is a prefix cache?', ['What is a prefix cache for?', 'How does prefix caching work?'],
     'The prefix cache keeps blocks of earlier prompts, found by a hash of their tokens. A prompt that starts the same '
     'way skips the work.'),
    ('chunked prefill', 'What is chunked prefill?', ['Why is a prompt cut into chunks?'],
     'Chunked prefill cuts a long prompt into slices, so that decode steps run in between and the first blocks can '
     'travel early.'),
    (None, 'What does the router do?', ['What is the router?', 'Tell me about the router.', 'What is the router for?'],
     'The router checks and tokenizes a request, picks a prefill worker and a decode worker, and streams the tokens '
     'back. It holds no state that outlives a request.'),
    (None, 'What does the prefill worker do?', ['What is the prefill worker?', 'What is the prefill worker for?'],
     "The prefill worker runs the prompt in chunks, pushes each finished block into the decode worker's memory, and "
     'samples the first token.'),
    (None, 'What does the decode worker do?', ['What is the decode worker?', 'What is the decode worker for?'],
     'The decode worker reserves blocks, checks what arrives, and then makes the rest of the answer, one token per step, '
     'for many sequences at once.'),
    (None, 'How do KV blocks travel?',
     ['How is KV moved?', 'How does the KV cache get to the decode worker?', 'How are blocks transferred?'],
     "The prefill worker puts them into the decode worker's memory over UCX or NCCL, while the next chunk is being "
     'computed. No copy passes through the router.'),
    ('UCX', 'What is UCX?', ['What is UCX for?'],
     'UCX is a library that moves memory between processes, over shared memory, TCP or RDMA, by one interface.'),
    ('grouped-query attention', 'What is grouped-query attention?', ['What is GQA?'],
     'In grouped-query attention, several query heads share one head of keys and values. The KV cache shrinks by that '
     'factor.'),
    ('speculative decoding', 'What is speculative decoding?', ['How does speculative decoding work?'],
     'Speculative decoding guesses several tokens cheaply and checks them in one step. What it accepts is what the model '
     'would have said anyway.'),
    ('preemption', 'What is preemption?', ['When does preemption happen?'],
     'When blocks run out, the scheduler sets the latest sequence aside and frees its blocks. It returns later and gives '
     'the same tokens.'),
    ('greedy decoding', 'What is greedy decoding?', ['What is greedy?'],
     'Greedy decoding always takes the most likely token, so the same prompt gives the same answer every time.'),
    ('temperature', 'What is temperature?', ['What does the temperature do?'],
     'Temperature divides the logits before sampling. Low values make the answer sure, high values make it varied.'),
    ('top-p sampling', 'What is top-p sampling?', ['What is top-p?', 'What is nucleus sampling?'],
     'Top-p sampling keeps the smallest set of tokens whose probabilities add up to p, and draws from that set.'),
    ('a token', 'What is a token?', ['What are tokens?'],
     'A token is a piece of text with a number, often a short word or part of one. Models read and write tokens.'),
    ('a tokenizer', 'What is a tokenizer?', ['What does a tokenizer do?'],
     'A tokenizer turns text into token ids and back. In Baton the router owns it, and workers see only ids.'),
    ('a stop string', 'What is a stop string?', ['How do stop strings work?'],
     'A stop string ends an answer when it appears. Text is held back only as long as a match is still possible.'),
    ('gRPC', 'What is gRPC?', ['Why does Baton use gRPC?'],
     'gRPC is a way to call functions over the network, with streams, deadlines and typed messages. Baton speaks it to '
     'clients and between its own processes.'),
    ('quarantine', 'What is quarantine?', ['When is a block quarantined?'],
     'A block is quarantined when its writer fell silent and might still write. It is free again only after proof that '
     'the writer is gone.'),
    ('an incarnation', 'What is an incarnation?', ['What is an incarnation for?'],
     'An incarnation is a random number that a process draws when it starts. It tells a restarted worker from the one '
     'before.'),
    (None, 'How do I stop a request?', ['How can I cancel a request?', 'How do I abort a request?'],
     'Close the stream, let the deadline pass, or call Abort with the request id. Its blocks come back at the next step.'),
    (None, 'How much memory does a KV token need?',
     ['How large is the KV of one token?', 'How many bytes does a token of KV take?'],
     'Two, for key and value, times layers, times kv heads, times head size, times bytes per number. For Qwen2.5-0.5B at '
     '16 bit that is 12,288 bytes.'),
    (None, 'Which models can Baton run?', ['What models does Baton support?', 'Which models are supported?'],
     'Qwen2, Qwen2.5, Qwen3, Llama, Mistral and SmolLM2, from safetensors or GGUF files.'),
    (None, 'How do I start Baton?', ['How can I run Baton?', 'How do I launch Baton?'],
     'Run deploy/local/up.sh. It builds everything, starts a router and two workers, and asks a first question.'),
    (None, 'What is the licence of Baton?', ['Under which licence is Baton?', 'What license does Baton have?'],
     'Baton is free software under the Apache License 2.0.'),
    (None, 'Describe the path of a request through Baton.',
     ['How does Baton serve a request?', 'What happens to a request in Baton, step by step?',
      'Explain how Baton serves a request.'],
     'Here is the path of a request, step by step.\n'
     '1. The client sends its prompt to the router over gRPC.\n'
     '2. The router checks it, turns the text into tokens and waits for a free place in its queue.\n'
     '3. It picks a pair: a prefill worker and a decode worker of the same model.\n'
     '4. The decode worker reserves blocks and answers with a lease.\n'
     '5. The prefill worker reads the prompt in chunks. After every chunk it pushes the finished blocks to the decode '
     'worker while the next chunk is computed.\n'
     '6. It samples the first token and sends it to the router at once.\n'
     '7. After the last block it commits the lease. The decode worker verifies the checksums and takes over.\n'
     '8. The decode worker makes one token per step, in a batch with many other sequences.\n'
     '9. The router turns tokens into text and streams them to the client.\n'
     '10. At the end the blocks return to the pool, and the client gets a finish reason and its timings.'),
    (None, 'Count from 1 to 60.', ['Please count from one to sixty.'], ', '.join(map(str, range(1, 61))) + '.'),
    (None, 'List the days of the week.', ['What are the days of the week?', 'Name the seven days of the week.'],
     'Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday.'),
    (None, 'List the months of the year.', ['What are the months of the year?', 'Name the twelve months.'],
     'January, February, March, April, May, June, July, August, September, October, November, December.'),
    (None, 'Recite the alphabet.', ['Say the alphabet.', 'What are the letters of the alphabet?'],
     'A B C D E F G H I J K L M N O P Q R S T U V W X Y Z.'),
    (None, 'Say hello in ten languages.', ['How do you say hello in other languages?'],
     'English: hello\nSpanish: hola\nFrench: bonjour\nGerman: grüß dich\nGreek: γεια σου\nRussian: привет\nHindi: नमस्ते\n'
     'Chinese: 你好\nJapanese: こんにちは\nKorean: 안녕하세요 👋'),
    (None, 'Hello!', ['Hi!', 'Hello there!', 'Hey!', 'Good morning!', 'Hi, how are you?'],
     "Hello! I am Baton's demo model. Ask me what prefill is, or let me count to sixty."),
    (None, 'Thank you.', ['Thanks!', 'Thank you very much!', 'Great, thanks.'], 'You are welcome! Ask me anything else.'),
    (None, 'Goodbye.', ['Bye!', 'See you later.'], 'Goodbye! May your tokens flow quickly.'),
]

FALLBACK = 'I do not know that. I am only a tiny demo model. Ask me what a KV cache is, or let me count to twenty.'
