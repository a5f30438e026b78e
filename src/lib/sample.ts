/**
 * The sample app for the first deployment. Every host makes its image itself, so it needs no registry and no internet
 * access.
 */

/**
 * Image reference of the sample. No other image has this reference: images from builds are named `app-<id>`, and those
 * of Mote itself `mote-<name>`.
 */
export const sampleImage = 'oci:mote-sample'

/** Settings with which the dashboard and `mote launch --sample` create the app. */
export const sampleApp = {
  name: 'hello',
  git_url: '',
  port: 8080,
  health_check_path: '/health',
  drain_timeout: 1,
} as const
