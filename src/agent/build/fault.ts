/** A build failure that a retry does not fix. Its message is shown to the app's owner. */
export class BuildFault extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'BuildFault'
  }
}
