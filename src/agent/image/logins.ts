/** Asks the control plane for credentials of projects. They stay in memory, and only while an image is pulled. */
import { Value } from 'typebox/value'
import type { Bus } from '../../bus/bus.ts'
import { RegistryLoginAnswer, type RegistryLoginRequest, subjects } from '../../contract/agent.ts'
import type { AskLogin } from './access.ts'

const answerMs = 5000

export const loginsFrom =
  (bus: Bus, hostId: string): AskLogin =>
  async (vmId, signal) => {
    const request: RegistryLoginRequest = { vmId }
    const answer = await bus.request(subjects.registryLogin(hostId), request, { timeoutMs: answerMs, signal })
    return Value.Parse(RegistryLoginAnswer, answer).login ?? undefined
  }
