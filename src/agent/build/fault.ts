/** A build failure that no retry can fix. The message is for the owner of the app. */
export class BuildFault extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'BuildFault'
  }
}
