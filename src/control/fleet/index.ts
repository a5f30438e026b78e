export { startHostReceiver } from './receiver.ts'
