import { expect, test } from 'vitest'
import { maskOf } from './mask.ts'

test('secret values are masked: each line of a value with several, and longer values before shorter ones', () => {
  const mask = maskOf(['abcdefgh', 'abcdefgh-longer', '-----BEGIN KEY-----\nMIIEvQIBADAN\n', 'short'])
  expect(mask('token abcdefgh-longer and abcdefgh.')).toBe('token *** and ***.')
  expect(mask('MIIEvQIBADAN')).toBe('***')
  expect(mask('-----BEGIN KEY-----')).toBe('***')
  expect(mask('a short word')).toBe('a short word')
})

test('without secrets, lines are unchanged', () => {
  expect(maskOf([])('abcdefgh')).toBe('abcdefgh')
})
