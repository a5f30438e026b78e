/** Simulates hosts whose VMs have any number of idle sessions, because only the control plane is measured. */
import type { Bus } from '../src/bus/bus.ts'
import { type SessionAnswer, type SessionRequest, subjects, type VmSession } from '../src/contract/agent.ts'

export async function serveIdleSessions(bus: Bus): Promise<void> {
  const opened = new Map<string, string[]>()
  await bus.serve(subjects.hostIn('*', 'vm.session'), data => {
    const { vmId, request } = data as VmSession
    if (request.action === 'open') opened.set(vmId, [...(opened.get(vmId) ?? []), request.sessionId])
    return answerTo(request, opened.get(vmId) ?? [])
  })
}

async function answerTo(request: SessionRequest, sessionIds: readonly string[]): Promise<SessionAnswer> {
  const none = { stdout: 0, stderr: 0 }
  switch (request.action) {
    case 'open':
      return { action: 'open', pid: 100 }
    case 'list':
      return {
        action: 'list',
        sessions: sessionIds.map(sessionId => ({
          sessionId,
          state: 'running',
          number: 100,
          tty: true,
          held: true,
          oldest: none,
          total: none,
          inputBytes: 0,
        })),
      }
    case 'read':
      await new Promise(resolve => setTimeout(resolve, request.waitMs))
      return { action: 'read', parts: [], end: null }
    case 'input':
      return { action: 'input', receivedBytes: request.offset }
    default:
      return { action: request.action }
  }
}
