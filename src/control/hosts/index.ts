/** Hosts: their rows and reserved capacity, the client of their agents, and live metrics. */
export { agentClient, type SessionRead } from './agent.ts'
export { type Candidates, createCandidates } from './candidates.ts'
export { type LiveStats, createLiveStats } from './live.ts'
export {
  abandon,
  cordon,
  find as findHost,
  isStray,
  findLost,
  type HostRow,
  label as labelHost,
  list as listHosts,
  lock as lockHost,
  type LostHost,
  lose as loseHost,
  pools as listPools,
  release,
  remove as removeHost,
  reserve,
  rooms as hostRooms,
  settle as settleStrays,
  settleOne as settleStray,
  silent as silentHosts,
  suspect as suspectHost,
  touch as touchHosts,
  upsert as recordHeartbeat,
} from './store.ts'
