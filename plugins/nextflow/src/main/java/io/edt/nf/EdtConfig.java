// The scope `edt` for those versions of Nextflow that check a configuration by itself; the values are read by `Settings`.
package io.edt.nf;

import java.util.List;
import java.util.Map;
import nextflow.config.schema.ConfigOption;
import nextflow.config.schema.ConfigScope;
import nextflow.config.schema.ScopeName;
import nextflow.script.dsl.Description;

/** Names and descriptions of all options. */
@ScopeName("edt")
@Description("The `edt` scope says how the plugin nf-edt stages and publishes files.")
public final class EdtConfig implements ConfigScope {
    @ConfigOption
    @Description("File with the secret that is shared with the server.")
    public String tokenFile;

    @ConfigOption
    @Description("File with the pinned identities of servers.")
    public String knownHosts;

    @ConfigOption
    @Description("Whether encryption may be left out beyond loopback.")
    public boolean plain;

    @ConfigOption
    @Description("Most streams of one transfer (64).")
    public int maxStreams;

    @ConfigOption
    @Description("Most bytes per second of one transfer, for example '100MB'.")
    public String limitRate;

    @ConfigOption
    @Description("Attempts after one that broke off without any progress (4).")
    public int retries;

    @ConfigOption
    @Description("Schemes of other services whose files edt stages: https, http, ftp, ftps, sftp.")
    public List<String> schemes;

    @ConfigOption
    @Description("Places that are there as a path: ['edt://host/data': '/mnt/data'].")
    public Map<String, String> mounts;

    @ConfigOption
    @Description("Seconds between lines of progress (10); 0 for none.")
    public int progress;

    @ConfigOption
    @Description("Seconds for which a listing is believed (2).")
    public int statTtl;

    @ConfigOption
    @Description("Files that Nextflow may stage or publish at once (256).")
    public int transfers;

    @ConfigOption
    @Description("Directory for partial files (`.edt` in the work directory).")
    public String partialDir;

    /** Made by Nextflow for its description. */
    public EdtConfig() {}
}
