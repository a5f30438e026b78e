export { type AgentClient, agentClient } from './agent.ts'
export { type LiveStats, createLiveStats } from './live.ts'
export { startHostReceiver } from './receiver.ts'
export { list as listHosts } from './store.ts'
