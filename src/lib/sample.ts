/** The app that a first run deploys. Every host makes its image by itself, so it needs no registry and no internet. */

/** Reserved reference: images of builds are named `app-<id>`, and those of Mote itself `mote-<name>`. */
export const sampleImage = 'oci:mote-sample'

/** The app as the dashboard and `mote launch --sample` create it. */
export const sampleApp = {
  name: 'hello',
  git_url: '',
  port: 8080,
  health_check_path: '/health',
  drain_timeout: 1,
} as const
