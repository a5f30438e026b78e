/**
 * The guest violated the protocol of its ports. Mote's init never does, so another program in the guest has replaced
 * it.
 */
export class GuestFault extends Error {
  constructor(message: string) {
    super(`the guest violated the protocol of its ports: ${message}`)
    this.name = 'GuestFault'
  }
}
