const ordinals = ['first', 'second', 'third', 'fourth']
const numbers = ['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine']

/** The answer to a captcha in words, found as a person finds it: by reading. */
export function answerInWords(question: string): string {
  const named = /^Take the (\w+) letter of the word ([A-Z]+)|^Write down letter number (\w+) of ([A-Z]+)/.exec(question)
  const place = named?.[1] ? ordinals.indexOf(named[1]) : numbers.indexOf(named?.[3] ?? '') - 1
  const sum = /(?:add|say what) (\w+) (?:and|plus) (\w+)/.exec(question)
  const total = numbers.indexOf(sum?.[1] ?? '') + numbers.indexOf(sum?.[2] ?? '')
  return `${(named?.[2] ?? named?.[4] ?? '')[place]}${total}`
}
