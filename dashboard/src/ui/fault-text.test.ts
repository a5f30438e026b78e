import { expect, it } from 'vitest'
import { faultText } from './fault-text.ts'

it.each([
  ['Password', 'is a commonly used password; choose another', 'Password is a commonly used password; choose another.'],
  [
    'What does the picture say?',
    'is wrong or too old. Ask for another.',
    'This answer is wrong or too old. Ask for another.',
  ],
  ['Host', 'the volume is already on host-1', 'The volume is already on host-1.'],
  ['Until', 'Give a time after `since`.', 'Give a time after `since`.'],
  ['Island', 'island is full', 'Island is full.'],
])('a message about the field "%s" becomes a sentence: %s', (label, fault, text) =>
  expect(faultText(label, fault)).toBe(text),
)
