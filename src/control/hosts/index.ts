export { agentClient } from './agent.ts'
export { type LiveStats, createLiveStats } from './live.ts'
export { list as listHosts, release, reserve, touch as touchHosts, upsert as recordBeat } from './store.ts'
