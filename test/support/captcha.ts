import { pbkdf2Sync } from 'node:crypto'

const ordinals = ['first', 'second', 'third', 'fourth']
const numbers = ['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine']

/** Returns the answer to a text captcha, by parsing its question. */
export function answerInWords(question: string): string {
  const named = /^Take the (\w+) letter of the word ([A-Z]+)|^Write down letter number (\w+) of ([A-Z]+)/.exec(question)
  const place = named?.[1] ? ordinals.indexOf(named[1]) : numbers.indexOf(named?.[3] ?? '') - 1
  const sum = /(?:add|say what) (\w+) (?:and|plus) (\w+)/.exec(question)
  const total = numbers.indexOf(sum?.[1] ?? '') + numbers.indexOf(sum?.[2] ?? '')
  return `${(named?.[2] ?? named?.[4] ?? '')[place]}${total}`
}

/** Computes the proof of work that a text captcha requires, as a browser does. */
export function proofFor(
  id: string,
  { iterations, bits }: { readonly iterations: number; readonly bits: number },
): string {
  for (let proof = 0; ; proof++) {
    const hash = pbkdf2Sync(`${id}:${proof}`, 'mote-captcha', iterations, 32, 'sha256')
    if (Math.clz32(hash.readUInt32BE(0)) >= bits) return String(proof)
  }
}
