import { describe, expect, it } from 'vitest'
import { faultOfLabels, labelsText, mostLabels, parseLabels } from './labels.ts'

describe('host labels', () => {
  it('are parsed from a setting and formatted as text', () => {
    expect(parseLabels('')).toEqual({})
    expect(parseLabels(' region=eu-1, disk=nvme ')).toEqual({ region: 'eu-1', disk: 'nvme' })
    expect(labelsText({ region: 'eu-1', disk: 'nvme' })).toBe('region=eu-1, disk=nvme')
  })

  it.each([
    ['region', 'has no value'],
    ['Region=eu', 'is not a name'],
    ['=eu', 'is not a name'],
    ['region=', 'the value of region'],
    ['region=a b', 'the value of region'],
    [`region=${'a'.repeat(64)}`, 'the value of region'],
    ['-a=b', 'is not a name'],
  ])('are refused if the setting is %j', (text, why) => {
    expect(() => parseLabels(text)).toThrow(why)
  })

  it('are limited in number', () => {
    const many = Object.fromEntries(Array.from({ length: mostLabels + 1 }, (_, n) => [`l${n}`, 'x']))
    expect(faultOfLabels(many)).toContain(String(mostLabels))
  })
})
