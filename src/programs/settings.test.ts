import { expect, it } from 'vitest'
import { defaultDiskLimits } from '../agent/base/disk-limits.ts'
import { defaultLimits } from '../agent/base/network-limits.ts'
import { guestLimitsOf } from './parts.ts'
import { limitOf, programSettings, readSettings } from './settings.ts'

it("without settings, VMs have the agent's default limits", () => {
  expect(guestLimitsOf(readSettings({}, {}))).toEqual({ guestLimits: defaultLimits, diskLimits: defaultDiskLimits })
})

it('each limit of VMs is set independently', () => {
  const names = Object.values(programSettings).flatMap(({ env }) =>
    env.startsWith('MOTE_GUEST_') && env !== 'MOTE_GUEST_SUBNET' ? [env] : [],
  )
  const { guestLimits, diskLimits } = guestLimitsOf(
    readSettings({}, Object.fromEntries(names.map((env, n) => [env, String(n + 1)]))),
  )
  const values = [...Object.values(guestLimits), ...Object.values(diskLimits)]
  expect(values.toSorted((a, b) => a - b)).toEqual(names.map((_, n) => n + 1))
})

it.each(['0', '-1', '1.5', 'many', '', '2049'])('the limit "%s" is refused with the name of its setting', value => {
  expect(() => limitOf(programSettings.guestTrafficMib, value, 2048)).toThrow(
    /^MOTE_GUEST_TRAFFIC_MIB .*from 1 to 2048$/,
  )
})
