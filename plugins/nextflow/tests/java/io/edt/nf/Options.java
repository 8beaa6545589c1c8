// Takes configurations for the test, as a run does at its begin, and tells what is said of each.
package io.edt.nf;

import nextflow.Global;
import nextflow.config.ConfigParser;

/** `Options CONFIG...`: for each text of a configuration a line with what is said of it, and one with a path that it sets. */
public final class Options {
    private Options() {}

    /** Run by the test. */
    public static void main(String[] configs) {
        for (String config : configs) {
            Global.setConfig(new ConfigParser().parse(config));
            String said = said();
            System.out.println("said " + said);
            System.out.println("path " + (said.equals("nothing") ? Engine.settings().partialDir : null));
        }
    }

    private static String said() {
        try {
            if (!Engine.settings().engine.isEmpty()) {
                Engine.get();
            }
            return "nothing";
        } catch (IllegalArgumentException error) {
            return error.getMessage();
        }
    }
}
