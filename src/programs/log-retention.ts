import type { AgentConfig } from '../agent/base/config.ts'
import { days } from '../lib/duration.ts'
import { limitOf, type ProgramSettings, programSettings } from './settings.ts'

/** Returns the limits on the logs of removed VMs. @throws Error naming the invalid setting */
export function logRetentionOf(settings: ProgramSettings): AgentConfig['logRetention'] {
  const bytes = (name: 'logAppMib' | 'logHostMib') => limitOf(programSettings[name], settings[name], 1 << 24) * 2 ** 20
  return {
    maxAgeMs: days(limitOf(programSettings.logDays, settings.logDays, 365)),
    appBytes: bytes('logAppMib'),
    hostBytes: bytes('logHostMib'),
  }
}
