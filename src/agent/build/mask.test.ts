import { expect, test } from 'vitest'
import { maskOf } from './mask.ts'

test('values are masked, each line of those with several, and longer ones first', () => {
  const mask = maskOf(['abcdefgh', 'abcdefgh-longer', '-----BEGIN KEY-----\nMIIEvQIBADAN\n', 'short'])
  expect(mask('token abcdefgh-longer and abcdefgh.')).toBe('token *** and ***.')
  expect(mask('MIIEvQIBADAN')).toBe('***')
  expect(mask('-----BEGIN KEY-----')).toBe('***')
  expect(mask('a short word')).toBe('a short word')
})

test('without secrets, lines stay as they are', () => {
  expect(maskOf([])('abcdefgh')).toBe('abcdefgh')
})
