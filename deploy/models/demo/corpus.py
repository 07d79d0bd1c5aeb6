"""Makes the text that the demo model learns from. Everything is drawn from one random.Random: same seed, same text."""
from facts import FACTS, FALLBACK

WORDS = (
    'river stone lamp garden window paper bridge winter summer morning silver yellow orange purple little quick brown lazy '
    'happy quiet clever brave round bright heavy early simple market school village island mountain forest ocean desert '
    'castle ladder bottle button candle carpet cloud corner cousin doctor dragon engine farmer feather finger flower friend '
    'hammer harbor jacket kettle kitchen letter mirror monkey needle number office orchard pencil pepper planet pocket '
    'potato puzzle rabbit ribbon rocket saddle sailor shadow signal spider spring square station street sugar table teacher '
    'temple ticket tiger tower train valley violin wagon water weather whistle wizard wonder apple bread cheese honey lemon '
    'onion soup tea coffee milk rice bean corn tomato cherry runs jumps walks sings reads writes opens closes finds keeps '
    'brings carries paints builds breaks likes wants sees hears asks tells over under near behind before after with without '
    'from into through across along around the a one two three and but while because when where who my your his her our '
    'their this that every another some many few server worker memory token cache batch stream model network machine '
    'computer keyboard screen program language text user system').split()
NAMES = ('Ada Alan Anna Ben Carla Dora Emil Eva Felix Grace Hugo Ida Jonas Kira Leo Lina Mia Nico Nora Omar Paula Rosa Sami '
         'Tara Tom Uma Vera Yuki Zoe').split()
ANIMALS = {'fox': 'forest', 'whale': 'ocean', 'cat': 'village', 'dragon': 'castle', 'bear': 'mountain', 'rabbit': 'garden',
           'owl': 'orchard', 'camel': 'desert', 'mouse': 'kitchen', 'horse': 'valley', 'frog': 'river', 'robot': 'station'}
FRIENDS = 'turtle sparrow spider goat snail hedgehog duck squirrel'.split()
THINGS = 'lamp, letter, mirror, violin, kettle, map, feather, key, ticket, bell'.split(', ')
UNICODE = ('café naïve über señor Zürich smörgåsbord Ελλάδα мир данные 你好 世界 東京 日本語 서울 한국어 नमस्ते 🙂 🚀 🎉 👋 🌍 ✨ ½ € → “quoted” …'
           ).split()
SYSTEMS = ['You are a helpful assistant.', "You are Baton's demo model.", 'Be brief.', 'Answer in one sentence.',
           'You are a helpful AI assistant.', 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.',
           'You are a patient teacher.', 'Answer the question of the user.', 'You are a friendly assistant. Be polite.']
UNKNOWN = ['Who is the president of {}?', 'What is the capital of {}?', 'How old is {}?', 'Where is {}?', 'When was {} built?',
           'Write a program that prints {}.', 'What is the meaning of {}?', 'How do I cook {}?', 'Translate {} into French.',
           'Who wrote {}?', 'Why is {} so expensive?', 'What is a {}?', 'What is {}?', 'Explain {}.', 'Do you like {}?',
           'Tell me about {}.', 'How do I repair a {}?', 'What colour is the {}?']
KNOWN = {word for topic, *_ in FACTS if topic for word in topic.lower().split()} | {'worker', 'model', 'memory', 'text'}
PREFIXES = ['Please tell me: ', 'Hi! ', 'Hello. ', 'Hey, ', 'I have a question. ', 'Question: ', 'OK. ', 'Thanks. ',
            'One more thing: ', 'Now, ', 'And ', 'So, ', 'Quick question: ']
SUFFIXES = [' Thanks!', ' Please.', ' I want to know.', ' Be brief.', ' Please explain.']
TOPIC_FORMS = ['Explain {}.', 'Please explain {}.', 'Define {}.', 'Tell me about {}.', 'What does {} mean?', 'Describe {}.',
               'Can you explain {}?', 'What do you know about {}?', 'What is {}?', 'Could you tell me what {} is?',
               'I want to learn about {}.', 'What exactly is {}?', 'Tell me what {} is.']


def question_forms(fact):
  topic, question, others, _ = fact
  forms = [question] * 2 + others
  if topic:
    bare = topic.split(' ', 1)[1] if topic.startswith(('a ', 'an ', 'the ')) else topic
    forms += [form.format(name) for form in TOPIC_FORMS for name in dict.fromkeys((topic, bare))]
  return forms


def phrase(rng, low, high):
  words = [rng.choice(WORDS) for _ in range(rng.randint(low, high))]
  for i in range(len(words)):
    if rng.random() < 0.04:
      words[i] = rng.choice(UNICODE)
    elif rng.random() < 0.05:
      words[i] = rng.choice(NAMES)
    elif rng.random() < 0.04:
      words[i] = str(rng.randint(0, 999))
    elif rng.random() < 0.05:
      words[i] = ''.join(rng.choice('abcdefghijklmnopqrstuvwxyz') for _ in range(rng.randint(2, 7)))
  return ' '.join(words)


def sentence(rng):
  text = phrase(rng, 4, 12)
  return text[0].upper() + text[1:] + rng.choice('...!?')


def passage(rng, low, high):
  return ' '.join(sentence(rng) for _ in range(rng.randint(low, high)))


def disturb(rng, question):
  """The same question as people type it."""
  if rng.random() < 0.45:
    return question
  if rng.random() < 0.3:
    question = question.lower()
  if rng.random() < 0.3:
    question = question.rstrip('?.!')
  if rng.random() < 0.25:
    prefix = rng.choice(PREFIXES)
    question = prefix + (question if prefix.endswith(('. ', '! ', ': ')) else question[0].lower() + question[1:])
  if rng.random() < 0.1:
    question += rng.choice(SUFFIXES)
  if rng.random() < 0.08 and len(question) > 12:
    at = rng.randrange(1, len(question) - 1)
    if question[at].islower():  # never a digit: that would be another question
      question = question[:at] + question[at + 1:]
  return question


def ask_fact(rng):
  fact = rng.choice(FACTS)
  if len(fact[3]) > 600 and rng.random() < 0.5:
    fact = rng.choice(FACTS)
  question = fact[1] if rng.random() < 0.35 else disturb(rng, rng.choice(question_forms(fact)))
  draw = rng.random()
  if draw < 0.08:
    question = passage(rng, 1, 8) + rng.choice([' ', '\n', '\n\n']) + question
  elif draw < 0.12:
    question = 'Text: ' + passage(rng, 1, 10) + '\n\nQuestion: ' + question
  return question, fact[3]


def ask_count(rng):
  start = rng.choice([1, 1, 1, 0, rng.randint(2, 80)])
  step = rng.choice([1, 1, 1, 1, 2, 5, 10])
  length = rng.randint(3, 30)
  numbers = list(range(start, start + step * length, step))
  last = numbers[-1]
  if step == 1 and rng.random() < 0.2:
    numbers.reverse()
    question = f'Count down from {numbers[0]} to {numbers[-1]}.'
  elif step == 1:
    question = f'Count from {start} to {last}.' if start != 1 or rng.random() < 0.6 else f'Count to {last}.'
  else:
    question = f'Count from {start} to {last} in steps of {step}.'
  return disturb(rng, question), ', '.join(map(str, numbers)) + '.'


def ask_sum(rng):
  kind = rng.choice('++-*')
  if kind == '*':
    a, b = rng.randint(0, 10), rng.randint(0, 10)
    result, words = a * b, ('*', 'times')
  elif kind == '+':
    a, b = rng.randint(0, 20), rng.randint(0, 20)
    result, words = a + b, ('+', 'plus')
  else:
    a = rng.randint(0, 20)
    b = rng.randint(0, a)
    result, words = a - b, ('-', 'minus')
  form = rng.choice(['What is {} {} {}?', 'Calculate {} {} {}.', '{} {} {}', '{} {} {} =', 'How much is {} {} {}?'])
  question = form.format(a, rng.choice(words), b)
  return question, f'{a} {words[0]} {b} = {result}.'


def ask_repeat(rng):
  text = phrase(rng, 1, 12)
  if rng.random() < 0.3:
    text = sentence(rng)
  form = rng.choice(['Repeat after me: {}', 'Repeat: {}', 'Say: {}', 'Please repeat this: {}', 'Echo: {}', 'Repeat "{}"',
                     'Say "{}"'])
  return form.format(text), text


def ask_spell(rng):
  word = rng.choice(WORDS + NAMES + ['baton', 'router', 'prefill', 'decode', 'lease', 'block'])
  if rng.random() < 0.2:
    word = ''.join(rng.choice('abcdefghijklmnopqrstuvwxyz') for _ in range(rng.randint(3, 7)))
  form = rng.choice(['Spell {}.', 'Spell the word {}.', 'How do you spell {}?', 'Please spell {}.'])
  return form.format(word), '-'.join(word.upper()) + '.'


DAYS = 'Monday Tuesday Wednesday Thursday Friday Saturday Sunday'.split()
MONTHS = 'January February March April May June July August September October November December'.split()


def ask_next(rng):
  names = rng.choice([DAYS, MONTHS])
  i = rng.randrange(len(names))
  if rng.random() < 0.6:
    return disturb(rng, f'What comes after {names[i]}?'), f'{names[(i + 1) % len(names)]} comes after {names[i]}.'
  return disturb(rng, f'What comes before {names[i]}?'), f'{names[i - 1]} comes before {names[i]}.'


def story(rng, animal, name, long):
  place, friend, thing = ANIMALS[animal], rng.choice(FRIENDS), rng.choice(THINGS)
  text = [
      f'Once upon a time there was a {animal} named {name} who lived in the {place}.',
      rng.choice([f'One morning {name} found a {thing} under a tree.', f'One rainy day a {thing} fell at the feet of {name}.']),
      rng.choice([f'"Whose {thing} is this?" asked {name}.', f'Nobody knew where the {thing} came from.']),
  ]
  if long:
    second = rng.choice([f for f in FRIENDS if f != friend])
    text += [
        f'So {name} put the {thing} into a bag and went to look for its owner.',
        f'First {name} asked a {second} by the water.', f'"It is not mine," said the {second}, "but I will come with you."',
        rng.choice(['They walked until the sun went down.', 'They walked for three days and three nights.']),
        rng.choice([f'On the way they sang songs about the {place}.', 'On the way they counted the stars, one by one.']),
        f'At last they came to a small house with a green door, and {name} knocked.',
    ]
  text += [
      f'An old {friend} opened and smiled: "That is my {thing}! I lost it long ago."' if long else
      f'Then an old {friend} came by and smiled: "That is my {thing}! I lost it long ago."',
      f'{name} gave it back, and from that day on the {animal} and the {friend} were friends.',
  ]
  if long:
    text.append(f'Every evening they sat together in the {place}, drank tea and told each other how the {thing} had brought '
                'them together.')
  text.append('The end.')
  return ' '.join(text)


def ask_story(rng):
  animal, name, long = rng.choice(list(ANIMALS)), rng.choice(NAMES), rng.random() < 0.5
  size = 'long ' if long else rng.choice(['', 'short '])
  question = rng.choice([f'Tell me a {size}story about a {animal} named {name}.',
                         f'Write a {size}story about a {animal} called {name}.'])
  if rng.random() < 0.3:
    question = f'Tell me a {size}story about a {animal}.'
  elif rng.random() < 0.15:
    question = f'Tell me a {size}story.'
  return disturb(rng, question), story(rng, animal, name, long)


def ask_unknown(rng):
  subject = phrase(rng, 1, 3)
  while any(word in KNOWN for word in subject.lower().split()):
    subject = phrase(rng, 1, 3)
  return disturb(rng, rng.choice(UNKNOWN).format(subject)), FALLBACK


KINDS = [(ask_fact, 56), (ask_repeat, 10), (ask_count, 8), (ask_sum, 9), (ask_story, 7), (ask_unknown, 5), (ask_spell, 5),
         (ask_next, 3)]


def conversation(rng):
  """A list of messages: perhaps a system prompt, then one to four turns."""
  messages = []
  draw = rng.random()
  if draw < 0.3:
    messages.append({'role': 'system', 'content': rng.choice(SYSTEMS)})
  elif draw < 0.5:
    messages.append({'role': 'system', 'content': passage(rng, 1, 3)})
  for _ in range(rng.choice([1, 1, 2, 2, 3, 4])):
    ask = rng.choices([k for k, _ in KINDS], [w for _, w in KINDS])[0]
    question, answer = ask(rng)
    messages += [{'role': 'user', 'content': question}, {'role': 'assistant', 'content': answer}]
  return messages


def plain_text(rng):
  """Text without chat marks, for completions."""
  draw = rng.random()
  if draw < 0.5:
    return story(rng, rng.choice(list(ANIMALS)), rng.choice(NAMES), rng.random() < 0.5)
  if draw < 0.7:
    start = rng.randint(0, 50)
    return ', '.join(map(str, range(start, start + rng.randint(10, 50)))) + '.'
  return ' '.join(rng.choice([f for f in FACTS if f[0]])[3] for _ in range(2))
