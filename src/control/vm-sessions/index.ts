/** Programs that run in VMs beside the app: terminals and commands, with a WebSocket for each client. */
export { vmSessionFeature } from './routes.ts'
export { sessionUpkeep } from './sweep.ts'
