import { expect, test } from 'vitest'
import { ageOf } from './version.ts'

test.each([
  ['Firecracker v1.16.1', '1.16', 'tested'],
  ['Firecracker v1.16.0', '1.16', 'tested'],
  ['Firecracker v1.9.1', '1.16', 'older'],
  ['Firecracker v1.17.0-dev', '1.16', 'newer'],
  ['Firecracker v2.0.0', '1.16', 'newer'],
  ['cloud-hypervisor v53.0.0', '53', 'tested'],
  ['cloud-hypervisor v52.1', '53', 'older'],
  ['cloud-hypervisor v54.0', '53', 'newer'],
  ['no version at all', '53', 'older'],
])('the version in the output "%s" counts, with the tested version %s, as %s', (text, tested, age) => {
  expect(ageOf(text, tested)).toBe(age)
})
