import { lineAt, type Project } from '../project.ts'
import type { Place, Provider } from '../types.ts'
import { versionOf } from '../versions.ts'

const gradleFiles = ['build.gradle', 'build.gradle.kts', 'settings.gradle', 'settings.gradle.kts'] as const
const wrapper = 'gradle/wrapper/gradle-wrapper.properties'

/**
 * Returns the line that shows that the project uses Gradle: its version in the wrapper's properties, otherwise the
 * first line with Gradle syntax.
 */
function gradlePlace(project: Project): Place {
  const script = gradleFiles.find(project.has)
  const found = project.has(wrapper) ? wrapper : (script ?? 'gradlew')
  const text = project.text(found)
  return { file: found, line: lineAt(text, text.search(/^(?:distributionUrl|plugins|apply plugin|rootProject)\b/m)) }
}

/** A Gradle or Maven project, built with its own wrapper if it has one. */
export const java: Provider = {
  name: 'java',
  detect: project => ['pom.xml', 'gradlew', ...gradleFiles].some(project.has),
  plan: project => {
    const isMaven = project.has('pom.xml')
    const maven = project.has('mvnw') ? './mvnw' : 'mvn'
    const gradle = project.has('gradlew') ? './gradlew' : 'gradle'
    const scripts = isMaven ? ['pom.xml'] : gradleFiles
    const isSpring = scripts.some(file => project.text(file).includes('org.springframework.boot'))
    const libs = project.has('build.gradle') || project.has('build.gradle.kts') ? 'build/libs' : '*/build/libs'
    return {
      ...(isMaven ? {} : { gradle: gradlePlace(project) }),
      framework: isSpring ? 'spring' : null,
      tools: [versionOf(project, 'java')],
      install: [],
      build: [
        isMaven
          ? `${maven} -B -DskipTests clean install -Pproduction`
          : `${gradle} clean build -x check -x test -Pproduction`,
      ],
      start: isMaven
        ? 'java $JAVA_OPTS -jar target/*jar'
        : `java $JAVA_OPTS -jar $(ls -1 ${libs}/*jar | grep -v plain)`,
      staticDir: null,
      port: null,
    }
  },
}
