import { expect, it } from 'vitest'
import { unhealthyMark } from '../../contract/agent.ts'
import { unhealthyReason } from './failure.ts'

const system = (line: string) => ({ stream: 'system' as const, line })

it('the reason of a failed deployment ends with the newest health check result of the host, and ignores lines that the app prints', () => {
  const lines = [
    system(`${unhealthyMark}nothing listens on port 1`),
    system(`${unhealthyMark}GET / answers 404`),
    { stream: 'stdout' as const, line: `${unhealthyMark}everything is fine` },
  ]
  expect(unhealthyReason(lines)).toBe(' GET / answers 404.')
  expect(unhealthyReason([system('healthy')])).toBe('')
})
